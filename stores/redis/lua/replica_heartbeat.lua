-- Say that a process lives.
-- KEYS: [1] beats: holders by the time of their last heartbeat, [2] labels. ARGV: holder, label.
-- Returns nothing to conclude from: it is done.

local holder, label = take(), take()
redis.call('ZADD', KEYS[1], exactly(clock()), holder)
redis.call('HSET', KEYS[2], holder, label)
return 1
