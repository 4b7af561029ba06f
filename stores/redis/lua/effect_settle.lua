-- Record the result of an effect; the first one stands.
-- KEYS: [1] held, [2] effects (see ledger.lua). ARGV: interrupt id, attempt, result.
-- Returns {'settled'}: this result is the row's now; {'already', result}: it had that one; {'second'}: this attempt's begin
-- was resolved as "did not happen", and another attempt began or it was closed since; {'fenced'}: this attempt did not begin
-- it, or it is closed or missing.

local name, attempt, result = take(), take(), take()
local ledger = ledger_at(KEYS[1], KEYS[2])
read_rows(ledger, {name})
local row = ledger.rows[name]
if not row then
  return {'fenced'}
end
local is_refuted = has(row.refuted, attempt)
if not (is_refuted or has(row.begun_by, attempt)) then
  return {'fenced'}
end
if row.state == 'closed' then
  return {is_refuted and 'second' or 'fenced'}
end
if is_refuted then
  for _, other in ipairs(row.begun_by or {}) do
    if other ~= attempt then
      return {'second'}
    end
  end
end
if row.result then
  return {'already', row.result}
end
row.state, row.result = 'settled', result
change(ledger, name, row)
write(ledger)
return {'settled'}
