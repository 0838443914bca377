-- Adds what a writer has counted to the slots of a policy, once: a number of the writer that was seen changes nothing. So what has
-- no answer is sent again.
--
-- KEYS  1 the writer's last number, a string   2 changes, a sorted set: minutes by the number of their last change
--       3 and so on: slots, hashes; then for each kind of frequent keys two sorted sets, counts and their errors
-- ARGV  1 number   2 seconds that it is remembered   3 how many seconds old a slot may be   4 and how far ahead
--       5 seconds that slots live after their hour   6 changes that are kept   7 keys of a kind that are kept
--       8 seconds that frequent keys live   9 how many slots follow, each as
--         its minute
--         how many counts, each a field and a number
--         how many counts of keys, each a group, how many the group may have, a key and a number
--         how many sets of hashes, each a field, the bytes of a hash, the bytes of the field at most, and the hashes
--       then kinds of frequent keys, each as how many keys, each a key, its count and its error
-- reply how many slots take nothing any more
--
-- Other programs can write to Redis: a field that is no number, or a key of another kind, must not stop the rest. Only the
-- first write may fail, where memory is short, and then nothing is written. A missing right is told in the end.

local at = 0
local function arg()
  at = at + 1
  return ARGV[at]
end
local function number() return tonumber(arg()) end
local forbidden
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'ermission') or string.find(reply.err, 'executing the script') then forbidden = reply.err end
  return nil
end

local seq, remembered, oldest, ahead = number(), arg(), number(), number()
local live, changes, keys, keysLive = number(), number(), number(), arg()
if (tonumber(try('GET', KEYS[1]) or 0) or 0) >= seq then return 0 end
redis.call('SET', KEYS[1], seq, 'EX', remembered)

-- Changes have numbers that grow also over a loss of the last ones. What is no change would be the last one for ever.
local time = redis.call('TIME')
local now = tonumber(time[1])
local last
for _ = 1, 100 do
  last = try('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES') or {}
  local n = tonumber(last[2])
  if not last[1] or string.match(last[1], '^%d+$') and n and n < 4503599627370496 then break end
  try('ZREM', KEYS[2], last[1])
  last = {}
end
local change = string.format('%.0f', math.max(now * 1000000 + tonumber(time[2]), (tonumber(last[2]) or 0) + 1))

local slots, refused = number(), 0
for k = 3, 2 + slots do
  local slot, minute = KEYS[k], number()
  local age = now - minute * 60
  local takes = age <= oldest and age >= -ahead
  if not takes then refused = refused + 1 end

  for _ = 1, number() do
    local field, n = arg(), arg()
    if takes then try('HINCRBY', slot, field, n) end
  end
  for _ = 1, number() do
    local group, most, key, n = arg(), number(), arg(), arg()
    if takes and try('HINCRBY', slot, group .. key, n) == tonumber(n) then -- it is new
      if (try('HINCRBY', slot, group, 1) or 0) > most then
        try('HINCRBY', slot, group, -1)
        try('HDEL', slot, group .. key)
      end
    end
  end
  for _ = 1, number() do
    local field, width, most, hashes = arg(), number(), number(), arg()
    if takes then
      local has = try('HGET', slot, field) or ''
      local before = #has
      for i = 1, #hashes, width do
        local hash = string.sub(hashes, i, i + width - 1)
        if #has + width <= most and not string.find(has, hash, 1, true) then has = has .. hash end
      end
      if #has > before then try('HSET', slot, field, has) end
    end
  end

  if takes then
    try('EXPIREAT', slot, (math.floor(minute / 60) + 1) * 3600 + live)
    if try('ZADD', KEYS[2], change, minute) == 1 then -- it is new
      try('ZREMRANGEBYRANK', KEYS[2], 0, -changes - 1)
      try('EXPIRE', KEYS[2], remembered + live)
    end
  end
end

-- Space-saving (Metwally, Agrawal, El Abbadi 2005): a key that finds no place takes over the smallest count as its error.
for k = 3 + slots, #KEYS, 2 do
  local top, errors = KEYS[k], KEYS[k + 1]
  local has = try('ZCARD', top) or 0
  for _ = 1, number() do
    local key, n, err = arg(), number(), number()
    if not try('ZSCORE', top, key) then
      if has >= keys then
        local least = try('ZRANGE', top, 0, 0, 'WITHSCORES') or {}
        try('ZREM', top, least[1] or '')
        try('ZREM', errors, least[1] or '')
        n, err = n + (tonumber(least[2]) or 0), err + (tonumber(least[2]) or 0)
      else
        has = has + 1
      end
    end
    try('ZINCRBY', top, string.format('%.0f', n), key)
    if err > 0 then try('ZINCRBY', errors, string.format('%.0f', err), key) end
  end
  try('EXPIRE', top, keysLive)
  try('EXPIRE', errors, keysLive)
end

if forbidden then return redis.error_reply(forbidden) end
return refused
