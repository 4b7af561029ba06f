-- Read one bucket's open occurrences of a scope, by interrupt id.
-- KEYS: [1] open. ARGV: where to begin ('-', or '[' and a text), limit.
-- Returns members of the index, in order.

return redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], '+', 'LIMIT', 0, ARGV[2])
