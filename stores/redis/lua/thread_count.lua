-- Count one bucket's open occurrences of a scope: the index knows it.
-- KEYS: [1] open.
-- Returns the number.

return redis.call('ZCARD', KEYS[1])
