-- Find one bucket's threads that want attention.
-- KEYS: [1] claims, [2] due. ARGV: limit, list of the holders that are alive.
-- Returns since when and name, in turn, of those that wait longest: of up to `limit` whose claim is past its until or has a
-- dead holder, and of up to `limit` that have no claim and are past their due_at.

local limit = tonumber(take())
local is_alive = {}
for _, holder in ipairs(take_list()) do
  is_alive[holder] = true
end

local now = clock()
local abandoned = {}
local claims = redis.call('HGETALL', KEYS[1])
for n = 1, #claims, 2 do
  local space = string.find(claims[n + 1], ' ', 1, true)
  local since = tonumber(string.sub(claims[n + 1], 1, space - 1))
  if since < now or not is_alive[string.sub(claims[n + 1], space + 1)] then
    abandoned[#abandoned + 1] = {since, claims[n]}
  end
end
table.sort(abandoned, function(one, other) return one[1] < other[1] end)

local answer = {}
for n = 1, math.min(limit, #abandoned) do
  answer[#answer + 1] = exactly(abandoned[n][1])
  answer[#answer + 1] = abandoned[n][2]
end
local waiting = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. exactly(now), 'WITHSCORES', 'LIMIT', 0, limit)
for n = 1, #waiting, 2 do
  answer[#answer + 1] = waiting[n + 1]
  answer[#answer + 1] = waiting[n]
end
return answer
