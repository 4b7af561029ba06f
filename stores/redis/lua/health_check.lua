-- Write and read back.
-- KEYS: [1] a hash, [2] a sorted set, both for this alone. ARGV: a text that was never written before.
-- Returns the text, as read from both.

local text = take()
redis.call('HSET', KEYS[1], 'checked', text)
redis.call('DEL', KEYS[2])
redis.call('ZADD', KEYS[2], 0, text)
return {redis.call('HGET', KEYS[1], 'checked'), redis.call('ZRANGE', KEYS[2], 0, -1)[1]}
