-- The rows of one thread's ledger, and what may become of them: the rules of stores/effect_row.py, here because they must
-- be one step with the thread's change.
-- Kept in `held` (hash: interrupt id -> row that is reserved or begun) and `effects` (hash: 'm' .. interrupt id -> row that
-- is settled or closed, 'r' .. interrupt id -> its result), so that a step about what is unsettled looks at nothing else.
-- A row is packed: state, kind, digest, lifetime (of its key, in seconds), attempt, holder (absent: free), lasts_until,
-- begun_at, begun_by and refuted (lists of attempts), why, resolved_by, evidence.

local function has(list, wanted)
  for _, each in ipairs(list or {}) do
    if each == wanted then
      return true
    end
  end
  return false
end

local function ledger_at(held, effects)
  return {held = held, effects = effects, rows = {}, changed = {}}
end

-- Read the rows of these interrupts that are there.
local function read_rows(ledger, names)
  local ended, fields = {}, {}
  for n, packed in ipairs(values_of(ledger.held, names)) do
    if packed then
      ledger.rows[names[n]] = ledger.rows[names[n]] or cmsgpack.unpack(packed)
    else
      ended[#ended + 1] = names[n]
      fields[#fields + 1] = 'm' .. names[n]
      fields[#fields + 1] = 'r' .. names[n]
    end
  end
  local found = values_of(ledger.effects, fields)
  for n, name in ipairs(ended) do
    local packed, result = found[2 * n - 1], found[2 * n]
    if packed then
      local row = cmsgpack.unpack(packed)
      row.result = result or nil
      ledger.rows[name] = row
    end
  end
end

local function change(ledger, name, row)
  ledger.rows[name] = row
  ledger.changed[name] = row
end

-- Write all rows that were changed.
local function write(ledger)
  local held, ended, effects = {}, {}, {}
  for name, row in pairs(ledger.changed) do
    local result = row.result
    row.result = nil
    local packed = cmsgpack.pack(row)
    if row.state == 'reserved' or row.state == 'begun' then
      held[#held + 1] = name
      held[#held + 1] = packed
    else
      ended[#ended + 1] = name
      effects[#effects + 1] = 'm' .. name
      effects[#effects + 1] = packed
      if result then
        effects[#effects + 1] = 'r' .. name
        effects[#effects + 1] = result
      end
    end
  end
  put('HSET', ledger.held, held)
  put('HDEL', ledger.held, ended)
  put('HSET', ledger.effects, effects)
end

-- Drop the hold of an attempt on its rows that are not settled.
local function free(ledger, attempt)
  local found = redis.call('HGETALL', ledger.held)
  for n = 1, #found, 2 do
    local row = cmsgpack.unpack(found[n + 1])
    if row.attempt == attempt and row.holder then
      row.holder = nil
      change(ledger, found[n], row)
    end
  end
end

-- The end of a row that has one, as an answer.
local function ended(row)
  if row.state == 'closed' then
    return {'closed', row.why or ''}
  end
  return row.result and {'settled', row.result}
end

local function is_free(row, dead, now)
  return not row.holder or dead[row.holder] or row.lasts_until < now
end

local function to_reserve(row, wanted, batch, now)
  if not row then
    return {'reserved', wanted.begin}
  end
  if ended(row) then
    return ended(row)
  end
  if row.attempt ~= batch.attempt and not is_free(row, batch.dead, now) then
    return {'held', row.digest == wanted.digest and '1' or '0'}
  end
  if not row.begun_at then
    return {'reserved', wanted.begin}
  end
  if row.digest ~= wanted.digest then
    return {'mismatch', ''}
  end
  local age = now - row.begun_at
  if row.kind == 'idempotent' and age < (row.lifetime or 0) then
    return {'reserved', '1'}
  end
  return {'begun', exactly(age)}
end

local function to_close(row, why, dead, now)
  if not row then
    return {'closed', why}
  end
  if ended(row) then
    return ended(row)
  end
  if not is_free(row, dead, now) then
    return {'held', '0'}
  end
  return row.begun_at and {'begun', exactly(now - row.begun_at)} or {'closed', why}
end

-- Note that the effect may start under the attempt that holds the row; the time of the first begin stays.
local function begun(row, now)
  row.state = 'begun'
  row.begun_at = row.begun_at or now
  row.begun_by = row.begun_by or {}
  if not has(row.begun_by, row.attempt) then
    table.insert(row.begun_by, row.attempt)
  end
end

-- A batch as arguments: attempt, holder, until; list of dead holders; number of calls to approve and for each interrupt id,
-- kind, digest, lifetime of its key ('': none), begin (1, 0); number of rows to close and for each interrupt id and why.
local function take_batch()
  local batch = {attempt = take(), holder = take(), lasts_until = tonumber(take()), dead = {}, approve = {}, close = {}}
  for _, holder in ipairs(take_list()) do
    batch.dead[holder] = true
  end
  for n = 1, tonumber(take()) do
    batch.approve[n] = {name = take(), kind = take(), digest = take(), lifetime = tonumber(take()), begin = take()}
  end
  for n = 1, tonumber(take()) do
    batch.close[n] = {name = take(), why = take()}
  end
  return batch
end

-- Judge a batch, and change the rows if no row refuses it. Returns the answers, those to approve first, each with what
-- belongs to it ('reserved', begun; 'held', same; 'begun', age; 'settled', result; 'closed', why; 'mismatch'), and whether
-- the batch is complete.
local function reserve(ledger, batch, now)
  local names = {}
  for _, list in ipairs({batch.approve, batch.close}) do
    for _, each in ipairs(list) do
      names[#names + 1] = each.name
    end
  end
  read_rows(ledger, names)

  local answers, is_complete = {}, true
  for n, wanted in ipairs(batch.approve) do
    answers[n] = to_reserve(ledger.rows[wanted.name], wanted, batch, now)
    is_complete = is_complete and (answers[n][1] == 'reserved' or answers[n][1] == 'settled')
  end
  for _, each in ipairs(batch.close) do
    local answer = to_close(ledger.rows[each.name], each.why, batch.dead, now)
    answers[#answers + 1] = answer
    is_complete = is_complete and answer[1] == 'closed'
  end
  if not is_complete then
    return answers, false
  end

  for _, each in ipairs(batch.close) do
    local row = ledger.rows[each.name] or {state = 'reserved', kind = 'none', digest = '', lasts_until = 0}
    if row.state ~= 'closed' then
      row.state, row.why, row.holder = 'closed', each.why, nil
      change(ledger, each.name, row)
    end
  end
  for n, wanted in ipairs(batch.approve) do
    if answers[n][1] == 'reserved' then
      local row = ledger.rows[wanted.name] or {state = 'reserved', kind = wanted.kind, lifetime = wanted.lifetime}
      row.attempt, row.holder, row.lasts_until = batch.attempt, batch.holder, batch.lasts_until
      row.digest = wanted.digest
      if wanted.begin == '1' or row.state == 'begun' then
        begun(row, now)
      end
      change(ledger, wanted.name, row)
    end
  end
  return answers, true
end
