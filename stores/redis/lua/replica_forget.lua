-- Remove a process that ended.
-- KEYS: [1] beats, [2] labels (see replica_heartbeat.lua). ARGV: holder.
-- Returns nothing to conclude from: it is done.

local holder = take()
redis.call('ZREM', KEYS[1], holder)
redis.call('HDEL', KEYS[2], holder)
return 1
