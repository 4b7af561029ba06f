-- Find one bucket's runs that were not written for long.
-- KEYS: [1] old. ARGV: age in seconds, limit, where an earlier look ended ('': from the oldest on).
-- Returns run and when it was last written, in turn: all that were written exactly then, and up to `limit` written later.

local age_seconds, limit, from = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local latest = clock() - age_seconds
local before = '(' .. exactly(latest)
if from == '' then
  return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before, 'WITHSCORES', 'LIMIT', 0, limit)
end
if tonumber(from) >= latest then
  return {}
end
local found = redis.call('ZRANGEBYSCORE', KEYS[1], from, from, 'WITHSCORES')
local later = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. from, before, 'WITHSCORES', 'LIMIT', 0, limit)
for _, each in ipairs(later) do
  found[#found + 1] = each
end
return found
