-- Reads keys, and answers no more than a reader has memory for.
--
-- KEYS  of each reading one
-- ARGV  1 entries of a whole hash or sorted set at most   2 bytes of all replies at most
--       then for each key: how many arguments follow, the command, and what it has behind the key
-- reply Redis's time, us; then for each key: why it was not read, or '', and the reply

local most, room, at = tonumber(ARGV[1]), tonumber(ARGV[2]), 3
local counts = {HGETALL = 'HLEN', ZRANGE = 'ZCARD'}
local now = redis.call('TIME')
local reply, sizes, total = {now[1] .. string.format('%06d', now[2])}, {}, 0

local function size(value)
  if type(value) == 'string' then return #value end
  local sum = 16
  if type(value) == 'table' then
    for _, part in ipairs(value) do sum = sum + size(part) end
  end
  return sum
end

local function read(key, args)
  local count = counts[args[1]] and redis.pcall(counts[args[1]], key)
  if type(count) == 'number' and count > most then return nil, 'LARGE ' .. count .. ' entries' end
  if args[1] == 'HMGET' then -- of any number of fields: a call takes some thousand arguments
    local values = {}
    for i = 2, #args do
      values[i - 1] = redis.pcall('HGET', key, args[i])
      if type(values[i - 1]) == 'table' then return nil, values[i - 1].err end
    end
    return values, ''
  end
  local value = redis.pcall(args[1], key, unpack(args, 2))
  if type(value) == 'table' and value.err then return nil, value.err end
  return value, ''
end

for k, key in ipairs(KEYS) do
  local args = {}
  for i = 1, tonumber(ARGV[at]) do args[i] = ARGV[at + i] end
  at = at + 1 + #args
  local value, why = read(key, args)
  reply[2 * k], reply[2 * k + 1], sizes[k] = why, value or false, size(value)
  total = total + sizes[k]

  -- The largest gives way, so that it and not a later one is named.
  while total > room do
    local largest = 1
    for i = 2, k do
      if sizes[i] > sizes[largest] then largest = i end
    end
    reply[2 * largest], reply[2 * largest + 1] = 'LARGE ' .. string.format('%.0f', sizes[largest]) .. ' bytes', false
    total, sizes[largest] = total - sizes[largest], 0
  end
end
return reply
