-- What every script begins with: its arguments, read one after the other, the clock, and calls with long lists.

local at = 0

local function take()
  at = at + 1
  return ARGV[at]
end

-- A list is given as its length and its elements.
local function take_list()
  local list = {}
  for n = 1, tonumber(take()) do
    list[n] = take()
  end
  return list
end

-- A number as a text that says it exactly: Lua itself would write 14 digits of it.
local function exactly(number)
  return string.format('%.17g', number)
end

-- Seconds since the epoch on Redis's own clock.
local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1000000
end

-- Lua's stack holds less than 8,000 values; even, so that pairs stay together.
local SLICE = 4000

local function sliced(command, key, list, each)
  for first = 1, #list, SLICE do
    each(redis.call(command, key, unpack(list, first, math.min(first + SLICE - 1, #list))))
  end
end

-- Run a command that takes a list; answers the sum of what it answers.
local function put(command, key, list)
  local sum = 0
  sliced(command, key, list, function(count) sum = sum + count end)
  return sum
end

-- Return the values of a hash's fields; false where there is none.
local function values_of(key, fields)
  local values = {}
  sliced('HMGET', key, fields, function(found)
    for _, value in ipairs(found) do
      values[#values + 1] = value
    end
  end)
  return values
end
