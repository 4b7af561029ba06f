-- Record that an effect may start.
-- KEYS: [1] held (see ledger.lua). ARGV: interrupt id, attempt.
-- Returns 1: the row is begun under this attempt, by this call or an earlier one; 0: it is not this attempt's to begin.

local name, attempt = take(), take()
local packed = redis.call('HGET', KEYS[1], name)
local row = packed and cmsgpack.unpack(packed)
if not row or row.attempt ~= attempt then
  return 0
end
if row.state == 'begun' then
  return 1
end
if not row.holder then
  return 0
end
begun(row, clock())
redis.call('HSET', KEYS[1], name, cmsgpack.pack(row))
return 1
