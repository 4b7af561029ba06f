-- Reserve and close all rows of a batch, or none.
-- KEYS: [1] held, [2] effects (see ledger.lua). ARGV: the batch as ledger.lua takes it.
-- Returns the answers, and 1 if they were written; 0: at least one row refused, and nothing was.

local ledger = ledger_at(KEYS[1], KEYS[2])
local answers, is_complete = reserve(ledger, take_batch(), clock())
if not is_complete then
  return {answers, 0}
end
write(ledger)
return {answers, 1}
