-- Remove runs of a thread, and the thread if it has no other.
-- KEYS: [1..8] of thread.lua. ARGV: name, least age in seconds, list of run ids.
-- Returns how many runs went, and 1 if the thread went too. While it has a claim or an open occurrence nothing goes.

local name, age, asked = take(), take(), take_list()
local thread, latest = current(), clock() - tonumber(age)
if not is_at_rest(thread) then
  return {0, 0}
end
local run_ids, fields, members = {}, {}, {}
for _, run_id in ipairs(asked) do
  local written_at = redis.call('ZSCORE', OLD, old_member(name, run_id))
  if written_at and tonumber(written_at) <= latest then
    run_ids[#run_ids + 1] = run_id
  end
end
for _, run_id in ipairs(run_ids) do
  for _, field in ipairs(fields_of_run(run_id)) do
    fields[#fields + 1] = field
  end
  fields[#fields + 1] = 'r' .. run_id
  members[#members + 1] = old_member(name, run_id)
end
local gone = put('HDEL', RUNS, run_ids)
put('HDEL', ENDED, fields)
put('ZREM', OLD, members)
if gone == 0 or redis.call('EXISTS', RUNS) == 1 then
  return {gone, 0}
end
remove(name, thread)
return {gone, 1}
