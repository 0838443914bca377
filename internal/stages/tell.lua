-- Asks for the lease of telling one receiver of moves, and notes what it was told.
--
-- KEYS  1 the lease   2 what was told, a hash
-- ARGV  1 id   2 how long the lease lasts, ms; 0 gives it back   3 how long the hash lives, ms
--       4 number of marks, then for each its name and its text; then the names of those that are asked for
-- reply Redis's time, us; 1 if the lease is the caller's, else 0 and no more; then the texts, '' for one that is not there

local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000000 + t[2])

-- Redis refuses writes when it is out of memory, but a script that has made one write may make more. HDEL needs no memory, so
-- it passes. Garbage of another type gives way.
local cleared = redis.pcall('HDEL', KEYS[2], '')
if type(cleared) == 'table' and cleared.err then redis.call('DEL', KEYS[2]) end
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then
  redis.call('DEL', KEYS[1])
  holder = false
end

if holder and holder ~= ARGV[1] then return {now, 0} end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
  return {now, 0}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local last = 4 + 2 * tonumber(ARGV[4])
for i = 5, last, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[2], ARGV[3])

local reply = {now, 1}
for i = last + 1, #ARGV do
  local text = redis.call('HGET', KEYS[2], ARGV[i])
  if not text or #text > 100 then text = '' end
  reply[#reply + 1] = text
end
return reply
