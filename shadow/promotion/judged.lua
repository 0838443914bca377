-- Stores judgements of policies, unless they are too old or a later one is stored.
--
-- KEYS  1 when each policy was judged, and by which instance, a hash
--       2 assessments, a hash   3 their details, a hash
-- ARGV  1 instant of the judgement, Unix microseconds   2 greatest distance from the clock, s
--       3 judge   then for each policy: its name, assessment and details; '' leaves what is stored
-- reply the number of policies that were noted, -1 if the judgement is too old

local now, at, within = redis.call('TIME'), tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000000
now = now[1] * 1000000 + now[2]
if math.abs(now - at) > within then return -1 end

-- Garbage of another type would keep every judge from noting anything.
local function carry_out(command, key, fields)
  if #fields == 0 then return {} end
  local reply = redis.pcall(command, key, unpack(fields))
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then redis.call('DEL', key) end
  return redis.call(command, key, unpack(fields))
end

local noted = 0
for first = 4, #ARGV, 3 * 1000 do -- Lua has room for some thousand arguments
  local last = math.min(first + 3 * 1000, #ARGV + 1) - 3
  local policies = {}
  for i = first, last, 3 do policies[#policies + 1] = ARGV[i] end
  local stored = carry_out('HMGET', KEYS[1], policies)

  local fields = {{}, {}, {}}
  for i = first, last, 3 do
    -- A later judgement stands, unless it is of a clock that has stepped back since.
    local before = tonumber(string.match(stored[(i - first) / 3 + 1] or '', '^(%d+) ') or '') or 0
    if before <= at or before > now + within then
      for n, text in ipairs({ARGV[1] .. ' ' .. ARGV[3], ARGV[i + 1], ARGV[i + 2]}) do
        if text ~= '' then
          fields[n][#fields[n] + 1] = ARGV[i]
          fields[n][#fields[n] + 1] = text
        end
      end
      noted = noted + 1
    end
  end
  for n = 1, 3 do carry_out('HSET', KEYS[n], fields[n]) end
end
return noted
