-- Stores what the leader has found, unless it is too old or another instance leads.
--
-- KEYS  1 assessments, a hash   2 their details, a hash   3 levels, a text   4 the lease
-- ARGV  1 instant of the evidence, Unix microseconds   2 greatest distance from the clock, s
--       3 leader   4 levels, or '' to leave them   5 how long they last, ms
--       then for each policy: its name, assessment and details; '' leaves what is stored
-- reply 1, or 0 if nothing was stored

local now = redis.call('TIME')
local age = now[1] * 1000000 + now[2] - tonumber(ARGV[1])
local holder = redis.pcall('GET', KEYS[4])
if math.abs(age) > tonumber(ARGV[2]) * 1000000 or holder ~= ARGV[3] then return 0 end

-- Garbage of another type would keep every leader from storing anything.
local function store(key, name, text)
  if text == '' then return end
  local reply = redis.pcall('HSET', key, name, text)
  if type(reply) ~= 'table' or not reply.err then return end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then redis.call('DEL', key) end
  redis.call('HSET', key, name, text)
end

if ARGV[4] ~= '' then redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[5]) end
for i = 6, #ARGV, 3 do
  store(KEYS[1], ARGV[i], ARGV[i + 1])
  store(KEYS[2], ARGV[i], ARGV[i + 2])
end
return 1
