-- Read rows.
-- KEYS: [1] held, [2] effects (see ledger.lua). ARGV: list of interrupt ids.
-- Returns for each interrupt null (no row) or state, kind, digest, attempt, holder, until, age of its begin in seconds,
-- result, why. Where there is none: null.

local names = take_list()
local ledger = ledger_at(KEYS[1], KEYS[2])
read_rows(ledger, names)
local now = clock()
local answer = {}
for n, name in ipairs(names) do
  local row = ledger.rows[name]
  answer[n] = row and {
    row.state, row.kind, row.digest, row.attempt or false, row.holder or false, exactly(row.lasts_until),
    row.begun_at and exactly(now - row.begun_at) or false, row.result or false, row.why or false,
  } or false
end
return answer
