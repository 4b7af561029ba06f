-- Remove rows that are settled or closed.
-- KEYS: [1] held, [2] effects (see ledger.lua). ARGV: list of interrupt ids.
-- Returns how many went.

local rows, results = {}, {}
for n, name in ipairs(take_list()) do
  rows[n], results[n] = 'm' .. name, 'r' .. name
end
local gone = put('HDEL', KEYS[2], rows)
put('HDEL', KEYS[2], results)
return gone
