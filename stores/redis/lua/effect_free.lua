-- Drop the hold of an attempt on its rows that are not settled; they stay as they are and become free.
-- KEYS: [1] held, [2] effects (see ledger.lua). ARGV: attempt.
-- Returns nothing to conclude from: it is done.

local ledger = ledger_at(KEYS[1], KEYS[2])
free(ledger, take())
write(ledger)
return 1
