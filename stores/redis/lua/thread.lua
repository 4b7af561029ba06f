-- The parts of a thread, and its bucket's indexes.
-- KEYS: [1] thread (hash: generation, write_id, record, claim, due_at, open, snapshot, bag), [2] chunks (list: sealed
--   messages, oldest first), [3] runs (hash: run id -> run), [4] ended (hash: 'i' .. interrupt and 'a' .. alias -> the
--   run that ended it; 'r' .. run id -> packed list of these fields). For a change also: [5] claims (hash: name ->
--   until and holder), [6] due (sorted by due_at: name), [7] old (sorted by when it was written: name and run id),
--   [8] open (sorted by interrupt id: occurrences of the scope).
-- Stored texts are opaque here, but for how they begin. `name` is the thread's in the indexes.

local THREAD, CHUNKS, RUNS, ENDED, CLAIMS, DUE, OLD, OPEN = unpack(KEYS)

local NOTHING = cmsgpack.pack({})

-- What a change compares and what it must take out of the indexes.
local function current()
  local found = redis.call('HMGET', THREAD, 'generation', 'write_id', 'claim', 'due_at', 'open')
  return {
    generation = found[1] or '0',
    write_id = found[2] or '',
    claim = found[3] or '',
    due_at = found[4] or '',
    open = found[5] or NOTHING,
  }
end

local function is_at_rest(thread)
  return thread.claim == '' and thread.open == NOTHING
end

-- The run that a duplicate is answered from: the first that ended one of `names` (fields of ENDED), else the one named;
-- false if there is none.
local function known_run(names, run_ids)
  for _, run_id in ipairs(values_of(ENDED, names)) do
    local run = run_id and redis.call('HGET', RUNS, run_id)
    if run then
      return run
    end
  end
  return run_ids[1] and redis.call('HGET', RUNS, run_ids[1]) or false
end

-- A thread as `load` and `open` answer it.
local function seen(now, known)
  local found = redis.call('HMGET', THREAD, 'generation', 'write_id', 'claim', 'record', 'snapshot', 'bag')
  local chunks = found[5] and redis.call('LRANGE', CHUNKS, 0, -1) or {}
  return {exactly(now), found[1], found[2], found[3], found[4], found[5], found[6], known, chunks}
end

-- When the thread is due if it has no claim, or ''.
local function appointment(thread)
  return thread.claim == '' and thread.due_at or ''
end

-- How the index names a run, as `joined` of stores/redis/keys.py writes it.
local function old_member(name, run_id)
  return name .. '\0\1' .. (string.gsub(run_id, '%z', '\0\2'))
end

-- Keep the indexes in step. `entry` is the claim as CLAIMS has it, `open` the members of OPEN. A change does this first,
-- and the appointment before all: its time is the only argument that Redis may refuse, and then nothing is written yet.
local function index(name, before, after, entry, open)
  local was_due, is_due = appointment(before), appointment(after)
  if was_due ~= is_due then
    if is_due == '' then
      redis.call('ZREM', DUE, name)
    else
      redis.call('ZADD', DUE, is_due, name)
    end
  end
  if before.claim ~= after.claim then
    if after.claim == '' then
      redis.call('HDEL', CLAIMS, name)
    else
      redis.call('HSET', CLAIMS, name, entry)
    end
  end
  if before.open ~= after.open then
    put('ZREM', OPEN, cmsgpack.unpack(before.open))
    local scored = {}
    for _, member in ipairs(open) do
      scored[#scored + 1] = 0
      scored[#scored + 1] = member
    end
    put('ZADD', OPEN, scored)
  end
end

-- Insert or replace a run; `fields` are those of ENDED that it is found by.
local function put_run(name, now, run_id, run, fields)
  redis.call('HSET', RUNS, run_id, run)
  redis.call('ZADD', OLD, exactly(now), old_member(name, run_id))
  if #fields == 0 then
    return
  end
  local packed = redis.call('HGET', ENDED, 'r' .. run_id)
  local all, is_there = packed and cmsgpack.unpack(packed) or {}, {}
  for _, field in ipairs(all) do
    is_there[field] = true
  end
  local found_by = {}
  for _, field in ipairs(fields) do
    if not is_there[field] then
      is_there[field] = true
      all[#all + 1] = field
    end
    found_by[#found_by + 1] = field
    found_by[#found_by + 1] = run_id
  end
  put('HSET', ENDED, found_by)
  redis.call('HSET', ENDED, 'r' .. run_id, cmsgpack.pack(all))
end

-- The fields by which a run is found now; another run may have ended the same since.
local function fields_of_run(run_id)
  local packed = redis.call('HGET', ENDED, 'r' .. run_id)
  local fields, kept = packed and cmsgpack.unpack(packed) or {}, {}
  for n, by in ipairs(values_of(ENDED, fields)) do
    if by == run_id then
      kept[#kept + 1] = fields[n]
    end
  end
  return kept
end

-- Remove all of a thread. It must have no claim.
local function remove(name, thread)
  local members = {}
  for _, run_id in ipairs(redis.call('HKEYS', RUNS)) do
    members[#members + 1] = old_member(name, run_id)
  end
  put('ZREM', OLD, members)
  index(name, thread, {claim = '', due_at = '', open = NOTHING}, '', {})
  redis.call('UNLINK', THREAD, CHUNKS, RUNS, ENDED)
end
