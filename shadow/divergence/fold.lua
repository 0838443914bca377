-- Stores what a judge has folded, or nothing. Two judges may fold at once, one of them may have been frozen since it read,
-- and a client may send the script again: only the first that names the last fold is carried out.
--
-- KEYS  1 acks and the mark, a hash   2 records, a hash   3 and so on: hours and lists, hashes
-- ARGV  1 the fold that the judge has read, '' for none   2 this fold   3 its mark   4 seconds that keys live
--       5 and so on, three each: the number of a key, a field, and its value, '' to remove the field
-- reply 1 if stored, 0 if another fold was

local last = redis.call('HMGET', KEYS[1], '~fold')[1] or ''
if last ~= ARGV[1] then return 0 end

-- The mark is written first: if Redis is out of memory it refuses this write, and so all of them.
redis.call('HSET', KEYS[1], '~fold', ARGV[2], '~mark', ARGV[3])

-- Fields of a key are stored with one command, and a thousand of them at most: Lua has room for some thousand arguments.
local waiting = {}
local function store(command, key, ...)
  local name = command .. key
  local all = waiting[name] or {command, key}
  waiting[name] = all
  for _, text in ipairs({...}) do all[#all + 1] = text end
  if #all >= 2000 then
    redis.call(unpack(all))
    waiting[name] = nil
  end
end

for i = 5, #ARGV, 3 do
  local key, field, value = KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2]
  if value == '' then
    store('HDEL', key, field)
  else
    store('HSET', key, field, value)
  end
end
for _, all in pairs(waiting) do redis.call(unpack(all)) end

for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[4]) end
return 1
