-- Take the claim for a run that decides nothing, if nothing stands in its way.
-- KEYS: [1..8] of thread.lua. ARGV: name, write id, how a claim of this run begins (its until comes behind), holder, claim
--   seconds, run id, run, an empty record, the two ways in which a text begins that this version can read, equally long.
-- Returns 1 and the thread with the claim, or 0 and the thread as it stands there; 1 also for the repeat of a write that is
-- there already.

local name, write_id, claim, holder, seconds = take(), take(), take(), take(), take()
local run_id, run, empty_record, format, sealed_format = take(), take(), take(), take(), take()

local now = clock()
local before = current()
local known = redis.call('HGET', RUNS, run_id)
local found = seen(now, known)

if before.write_id == write_id then
  return {1, found}
end
if known or not is_at_rest(before) then
  return {0, found}
end
-- What a later version wrote is left to a host of that version: this one could claim it, but not go on.
for _, text in ipairs({found[5], found[6], found[7]}) do
  local start = text and string.sub(text, 1, #format)
  if text and start ~= format and start ~= sealed_format then
    return {0, found}
  end
end

local until_when = exactly(now + tonumber(seconds))
claim = claim .. until_when
local generation = string.format('%.0f', tonumber(before.generation) + 1)
local record = found[5] or empty_record
redis.call('HSET', THREAD, 'generation', generation, 'write_id', write_id, 'claim', claim, 'due_at', '', 'record', record)
put_run(name, now, run_id, run, {})
local after = {claim = claim, due_at = '', open = before.open}
index(name, before, after, until_when .. ' ' .. holder, {})
found[2], found[3], found[4], found[5] = generation, write_id, claim, record
return {1, found}
