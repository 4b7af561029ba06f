-- Remove one checkpoint.
-- KEYS: [1] checkpoints, [2] places (see checkpoint_save.lua). ARGV: id.
-- Returns 1: it is gone; 0: there was none.

local id = take()
local place = redis.call('HGET', KEYS[1], 'p' .. id)
if not place then
  return 0
end
redis.call('ZREM', KEYS[2], place)
redis.call('HDEL', KEYS[1], 'p' .. id, 'b' .. id)
return 1
