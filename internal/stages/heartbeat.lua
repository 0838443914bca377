-- Notes that an instance is live, and answers what it asks. Reading works even where nothing can be written.
--
-- KEYS  1 when instances were heard, a sorted set   2 what they say of themselves, a hash   3 the lease
--       4 the number of changes   5 states, a hash   6 announced policies, a hash   7 levels, a text
-- ARGV  1 id, or '' to ask only   2 'heartbeat', 'lead' or 'leave'   3 what it says of itself, or '' to leave that
--       4 how long the lease lasts, ms   5 number of changes that it knows   6 how long instances count as live, ms
--       7 how long until they are forgotten, ms   8 number of policies, then their names
--       then for each announced policy: its name and its text
-- reply Redis's time, us; number of changes; holder of the lease and its rest, ms; live instances; 1 if it is known what
--       this one says of itself; why nothing was written, or ''; levels; then the states, if the number is another one

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local id, refused = ARGV[1], ''

local function wrong(reply, kind) return type(reply) == 'table' and reply.err and string.find(reply.err, kind, 1, true) end

-- A key of another type is garbage, and so is what no instance has memory for. To read it is to read nothing, and it gives way
-- to what is written.
local function read(...)
  local reply = redis.pcall(...)
  if type(reply) == 'string' and #reply > 1048576 then
    if select(1, ...) == 'GET' then redis.pcall('DEL', (select(2, ...))) end -- to read it each second would stop the server
    return nil
  end
  if wrong(reply, 'WRONGTYPE') then return nil end
  if type(reply) == 'table' and reply.err then return redis.call(...) end
  return reply
end
local function write(...)
  local reply = redis.pcall(...)
  if wrong(reply, 'WRONGTYPE') then
    redis.pcall('DEL', (select(2, ...)))
    reply = redis.pcall(...)
  end
  if type(reply) == 'table' and reply.err and refused == '' then refused = reply.err end

  -- Redis refuses writes when it is out of memory, but a script that has made one write may make more: instances must be
  -- heard, and harm be looked for, even then. HDEL needs no memory, so it passes.
  if wrong(reply, 'OOM ') then
    redis.pcall('HDEL', KEYS[2], '')
    reply = redis.pcall(...)
  end
  return reply
end

-- A lease that lasts longer than any is garbage, or of a clock that has stepped back: it would keep all from leading.
local holder = read('GET', KEYS[3]) or ''
local rest = redis.call('PTTL', KEYS[3])
if rest < 0 or rest > tonumber(ARGV[4]) then holder = '' end
if ARGV[2] == 'leave' then
  write('ZREM', KEYS[1], id)
  write('HDEL', KEYS[2], id)
  if holder == id then write('DEL', KEYS[3]); holder = '' end
elseif id ~= '' then
  if ARGV[3] ~= '' then write('HSET', KEYS[2], id, ARGV[3]) end
  if read('HEXISTS', KEYS[2], id) == 1 then write('ZADD', KEYS[1], now, id) end
  if ARGV[2] == 'lead' and (holder == '' or holder == id) then
    write('SET', KEYS[3], id, 'PX', ARGV[4])
    holder = read('GET', KEYS[3]) or ''

    -- A crashed instance does not leave by itself.
    for _, ends in ipairs({{'-inf', '(' .. string.format('%.0f', now - ARGV[7])}, {'(' .. string.format('%.0f', now + ARGV[7]), '+inf'}}) do
      for _, gone in ipairs(read('ZRANGEBYSCORE', KEYS[1], ends[1], ends[2], 'LIMIT', 0, 100) or {}) do
        write('ZREM', KEYS[1], gone)
        write('HDEL', KEYS[2], gone)
      end
    end

    -- One that says something of itself and is not heard would stay for ever. If it lives, it says so again.
    if (read('HLEN', KEYS[2]) or 0) > (read('ZCARD', KEYS[1]) or 0) then
      for _, unheard in ipairs(read('HKEYS', KEYS[2])) do
        if not read('ZSCORE', KEYS[1], unheard) then write('HDEL', KEYS[2], unheard) end
      end
    end
  end
end

local names, first = {}, 9 + ARGV[8]
for i = 9, first - 1 do names[#names + 1] = ARGV[i] end
for i = first, #ARGV, 2 do write('HSET', KEYS[6], ARGV[i], ARGV[i + 1]) end

local live = read('ZCOUNT', KEYS[1], string.format('%.0f', now - ARGV[6]), string.format('%.0f', now + ARGV[6])) or 0
local known = 0
if id ~= '' then known = read('HEXISTS', KEYS[2], id) or 0 end
local changes = read('GET', KEYS[4]) or '0'
local reply = {
  t[1] .. string.format('%06d', t[2]), changes, holder, math.max(0, redis.call('PTTL', KEYS[3])), live, known, refused,
  read('GET', KEYS[7]) or '',
}
if #names > 0 and (changes == '0' or changes ~= ARGV[5]) then
  for _, name in ipairs(names) do
    local state = read('HGET', KEYS[5], name)
    reply[#reply + 1] = (state == nil or state and #state > 65536) and '?' or state or ''
  end
end
return reply
