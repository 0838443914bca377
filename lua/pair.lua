-- One key's record, one or two sides, the enforced one first; `sides` says which.
--
-- KEYS: the record, then the sorted set of each side that has one.
-- ARGV: the instant in microseconds or '' for the server's clock, the least time
--       to live in milliseconds, the cost; per side its 8-character name and the
--       three terms of its limit.
-- Reply: the instant; per side status, remaining, retry, reset, delay. Status is
--       1 allowed, 0 denied, -1 an error, whose text is in place of remaining.

local at = ARGV[1]
if at == '' then
  local t = redis.call('TIME')
  at = t[1] * 1000000 + t[2]
else
  at = tonumber(at)
end
local least_ttl, cost = tonumber(ARGV[2]), tonumber(ARGV[3])

local stored = split(redis.call('GET', KEYS[1]) or '')
local parts, others = {}, {}
for _, part in ipairs(stored) do
  local name = string.sub(part, 1, 8)
  if name == ARGV[4] then
    parts[1] = part
  elseif name == ARGV[8] then
    parts[2] = part
  else
    others[#others + 1] = part
  end
end

local function message(e)
  if type(e) == 'table' then e = e.err end
  return tostring(e)
end

local reply, changed, unjudged, idle = {at}, false, false, 0
for i, side in ipairs(sides) do
  local first = 4 * i
  local name = ARGV[first]
  local limit = {tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3])}
  local s = parts[i] and decode(parts[i]) or {last = 0, used = 0, aux = 0, seq = 0}
  local ok, next_s, d = pcall(side.step, s, limit, cost, at, KEYS[side.log])
  local n = #reply
  if ok then
    idle = math.max(idle, d.reset)
    if d.allowed and cost > 0 then
      parts[i], changed = encode(name, next_s), true
      if side.log then side.ttl = d.reset end
    end
    reply[n + 1] = d.allowed and 1 or 0
    reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = d.remaining, d.retry, d.reset, d.delay
  else
    unjudged = true
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = -1, message(next_s), 0, 0, 0
  end
end

-- A record lives until it is as if unused, and a second more.
local function ttl_of(idle_us) return math.max(least_ttl, ceil_div(idle_us, 1000) + 1000) end

if changed then
  local record = (parts[1] or '') .. (parts[2] or '')
  if not (parts[1] and parts[2]) and others[1] then
    record, unjudged = record .. others[1], true
  end
  local ttl = ttl_of(idle)
  if unjudged then ttl = math.max(ttl, redis.call('PTTL', KEYS[1])) end
  redis.call('SET', KEYS[1], record, 'PX', whole(ttl))
  for _, side in ipairs(sides) do
    if side.ttl then redis.call('PEXPIRE', KEYS[side.log], whole(ttl_of(side.ttl))) end
  end
end
return reply
