-- Insert or replace one checkpoint.
-- KEYS: [1] checkpoints: per id its blob ("b" before the id) and its place ("p"), [2] places: all of them, in order.
-- ARGV: id (as it ends the place), place, blob.
-- Returns nothing to conclude from: it is done.

local id, place, blob = take(), take(), take()
local before = redis.call('HGET', KEYS[1], 'p' .. id)
if before then
  redis.call('ZREM', KEYS[2], before)
end
redis.call('HSET', KEYS[1], 'p' .. id, place, 'b' .. id, blob)
redis.call('ZADD', KEYS[2], 0, place)
return 1
