-- Copy a thread under other names, with its entries in the indexes of its bucket. For the bench alone: the keys of the
-- copies are not declared, as a cluster would want.
-- KEYS: the template's keys and the indexes with its entries, set aside. ARGV: their prefix, the template's scope and name;
--   then for each copy its bucket's prefix, its scope, its name and by how many seconds it is older. Names are as long as
--   the template's, so packed values stay whole.

local function plain(text)
  return (string.gsub(text, '%p', '%%%0'))
end

local template_prefix, template_scope, template_name = ARGV[1], plain(ARGV[2]), plain(ARGV[3])
local READ = {hash = {'HGETALL'}, list = {'LRANGE', 0, -1}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'}}
local WRITE = {hash = 'HSET', list = 'RPUSH', zset = 'ZADD'}

local parts = {}
for _, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local read = READ[kind]
  local part = {kind = kind, key = string.sub(key, #template_prefix + 1)}
  part.value = redis.call(read[1], key, unpack(read, 2))
  parts[#parts + 1] = part
end

for n = 4, #ARGV, 4 do
  local prefix, scope, name, age = ARGV[n], ARGV[n + 1], ARGV[n + 2], tonumber(ARGV[n + 3])
  local function named(text)
    return (string.gsub(string.gsub(text, template_scope, scope), template_name, name))
  end
  for _, part in ipairs(parts) do
    local value = {}
    for m, text in ipairs(part.value) do
      value[m] = named(text)
    end
    if part.kind == 'zset' then
      for m = 1, #value, 2 do
        value[m], value[m + 1] = string.format('%.17g', tonumber(value[m + 1]) - age), value[m]
      end
    end
    redis.call(WRITE[part.kind], prefix .. named(part.key), unpack(value))
  end
end
