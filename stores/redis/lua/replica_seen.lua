-- Tell who said that it lives.
-- KEYS: [1] beats (see replica_heartbeat.lua). No ARGV.
-- Returns each holder and the seconds since its last heartbeat, one after the other.

local now = clock()
local answer = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for n = 2, #answer, 2 do
  answer[n] = exactly(now - tonumber(answer[n]))
end
return answer
