-- Remove a thread with its runs, snapshot and bag.
-- KEYS: [1..8] of thread.lua. ARGV: name, expected generation, expected write id.
-- Returns 1: it is gone, or was never there; 0: it is at another version or has a claim, and nothing was removed.

local name, generation, write_id = take(), take(), take()
local thread = current()
if thread.generation ~= generation or thread.write_id ~= write_id or thread.claim ~= '' then
  return 0
end
remove(name, thread)
return 1
