-- Remove all but the newest checkpoints of a workflow.
-- KEYS: [1] checkpoints, [2] places (see checkpoint_save.lua).
-- ARGV: the bounds of the workflow's places, how many stay, how many bytes of a place come before the id.
-- Returns how many went.

local first, last, keep = take(), take(), tonumber(take())
local before_id = tonumber(take())
local surplus = redis.call('ZLEXCOUNT', KEYS[2], first, last) - keep
if surplus <= 0 then
  return 0
end
for _, place in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], first, last, 'LIMIT', 0, surplus)) do
  local id = string.sub(place, before_id + 1)
  redis.call('HDEL', KEYS[1], 'p' .. id, 'b' .. id)
  redis.call('ZREM', KEYS[2], place)
end
return surplus
