-- Compare and set, and with it free and reserve rows of the ledger: all of it or nothing.
-- KEYS: [1..8] of thread.lua, [9] held, [10] effects (see ledger.lua).
-- ARGV: name, expected generation, expected write id, write id, record, claim ('': none), the claim as CLAIMS has it,
--   due_at ('': never), list of members of OPEN, snapshot ('': stays), whether its chunks stay (1, 0), chunk ('': none),
--   bag ('': stays), number of runs and for each run id, run, list of fields of ENDED; list of at most one attempt to
--   free; whether there is a batch (1, 0), and the batch as ledger.lua takes it.
-- Returns {'saved', generation, answers}: the change is there, by this call or by an earlier one with the same write id;
-- {'lost'}: the record is at another version; {'refused', answers}: the ledger refused. In the last two nothing was written.

local name, expected_generation, expected_write_id, write_id, record = take(), take(), take(), take(), take()
local after = {claim = take()}
local entry = take()
after.due_at = take()
local open = take_list()
after.open = cmsgpack.pack(open)

local before = current()
local is_repeated = before.write_id == write_id
local is_expected = before.generation == expected_generation and before.write_id == expected_write_id
if not (is_expected or is_repeated) then
  return {'lost'}
end

local now = clock()
local snapshot, keeps, chunk, bag = take(), take(), take(), take()
local runs = {}
for n = 1, tonumber(take()) do
  runs[n] = {take(), take(), take_list()}
end

local ledger = ledger_at(KEYS[9], KEYS[10])
for _, attempt in ipairs(take_list()) do
  free(ledger, attempt)
end
local answers, is_complete = {}, true
if take() == '1' then
  answers, is_complete = reserve(ledger, take_batch(), now)
end
if is_repeated then
  return {'saved', before.generation, answers}
end
if not is_complete then
  return {'refused', answers}
end

index(name, before, after, entry, open)
local generation = string.format('%.0f', tonumber(before.generation) + 1)
local fields = {
  'generation', generation, 'write_id', write_id, 'record', record,
  'claim', after.claim, 'due_at', after.due_at, 'open', after.open,
}
if bag ~= '' then
  fields[#fields + 1] = 'bag'
  fields[#fields + 1] = bag
end
if snapshot ~= '' then
  fields[#fields + 1] = 'snapshot'
  fields[#fields + 1] = snapshot
  if keeps == '0' then
    redis.call('UNLINK', CHUNKS)
  end
  if chunk ~= '' then
    redis.call('RPUSH', CHUNKS, chunk)
  end
end
redis.call('HSET', THREAD, unpack(fields))
for _, run in ipairs(runs) do
  put_run(name, now, unpack(run))
end
write(ledger)
return {'saved', generation, answers}
