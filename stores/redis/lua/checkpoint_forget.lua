-- Remove all checkpoints of a thread.
-- KEYS: [1] checkpoints, [2] places (see checkpoint_save.lua). No ARGV.
-- Returns how many went.

local gone = redis.call('ZCARD', KEYS[2])
redis.call('DEL', KEYS[1], KEYS[2])
return gone
