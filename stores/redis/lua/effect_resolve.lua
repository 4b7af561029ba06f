-- State the truth about a row begun by an attempt that no one will settle.
-- KEYS: [1] held, [2] effects (see ledger.lua). ARGV: interrupt id, attempt, list of at most one result (none: it did not
--   happen), who states it, evidence.
-- Returns {'settled', result}: the row has this result; {'reserved'}: it is reserved and free; {'fenced'}: it is not begun, or
--   another attempt's.

local name, attempt, results, by, evidence = take(), take(), take_list(), take(), take()
local ledger = ledger_at(KEYS[1], KEYS[2])
read_rows(ledger, {name})
local row = ledger.rows[name]
if row and row.result then
  return {'settled', row.result}
end
if not row or row.attempt ~= attempt then
  return {'fenced'}
end
if row.state ~= 'begun' then
  -- Said again while it is still so, perhaps by a client that lost the reply.
  local is_unchanged = row.state == 'reserved' and not row.holder and has(row.refuted, attempt)
  return is_unchanged and not results[1] and {'reserved'} or {'fenced'}
end
row.resolved_by, row.evidence = by, evidence
change(ledger, name, row)
if results[1] then
  row.state, row.result = 'settled', results[1]
  write(ledger)
  return {'settled', results[1]}
end
row.refuted = row.refuted or {}
for _, refuted in ipairs(row.begun_by) do
  if not has(row.refuted, refuted) then
    table.insert(row.refuted, refuted)
  end
end
row.state, row.holder, row.begun_at, row.begun_by = 'reserved', nil, nil, nil
write(ledger)
return {'reserved'}
