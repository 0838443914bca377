-- One key's record, one or two sides, the enforced one first; `steps` and
-- `log_keys` say what they are.
--
-- KEYS: the record, then the sorted set of each side that has one.
-- ARGV: the instant in microseconds or '' for the server's clock, the least time
--       to live in milliseconds, the cost; per side its 8-character name and the
--       three terms of its limit.
-- Reply: the instant; per side status, remaining, retry, reset, delay. Status is
--       1 allowed, 0 denied, -1 an error, whose text is in place of remaining.
--
-- The record is a string of parts: a side's name and the four numbers of its
-- state, in binary where there is struct, which is cheaper than text.
-- A part that cannot be read counts as missing.

local struct = rawget(_G, 'struct')
local at, least_ttl, cost = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if at == '' then
  local t = redis.call('TIME')
  at = t[1] * 1000000 + t[2]
else
  at = tonumber(at)
end

local parts, other = {}, nil

local function sort_in(part)
  local name = string.sub(part, 1, 8)
  if name == ARGV[4] then
    parts[1] = part
  elseif name == ARGV[8] then
    parts[2] = part
  else
    other = other or part
  end
end

local record = redis.call('GET', KEYS[1])
if record and struct then
  for i = 1, #record, 40 do sort_in(string.sub(record, i, i + 39)) end
elseif record then
  for part in string.gmatch(record, '[^\n]*\n') do sort_in(part) end
end

local function encode(name, last, used, aux, seq)
  if struct then return name .. struct.pack('<dddd', last, used, aux, seq) end
  return name .. ' ' .. whole(last) .. ' ' .. whole(used) .. ' ' .. whole(aux) .. ' ' .. whole(seq) .. '\n'
end

-- state_of returns the four numbers of a part, zeros where it cannot be read.
local function state_of(part)
  local last, used, aux, seq
  if not struct then
    last, used, aux, seq = string.match(part, '^%w+ (%-?%d+) (%d+) (%-?%d+) (%d+)\n$')
    if not last then return 0, 0, 0, 0 end
    last, used, aux, seq = tonumber(last), tonumber(used), tonumber(aux), tonumber(seq)
  elseif #part == 40 then
    last, used, aux, seq = struct.unpack('<dddd', part, 9)
  end
  local most = 9007199254740992
  if last and used and aux and seq and last % 1 == 0 and used % 1 == 0 and aux % 1 == 0 and seq % 1 == 0
    and last >= -most and last <= most and used >= 0 and used <= most
    and aux >= -most and aux <= most and seq >= 0 and seq <= most then
    return last, used, aux, seq
  end
  return 0, 0, 0, 0
end

local reply, changed, unjudged, idle, log_ttl = {at}, false, false, 0, {}

local function judge(i)
  local last, used, aux, seq = 0, 0, 0, 0
  if parts[i] then last, used, aux, seq = state_of(parts[i]) end
  local arg, n, key = 4 * i, #reply, KEYS[log_keys[i]]
  local allowed, remaining, retry, reset, delay
  allowed, remaining, retry, reset, delay, last, used, aux, seq = steps[i](last, used, aux, seq,
    tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3]), cost, at, key)
  if allowed and cost > 0 then
    parts[i], changed = encode(ARGV[arg], last, used, aux, seq), true
    if key then log_ttl[key] = reset end
  end
  if reset > idle then idle = reset end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = allowed and 1 or 0, remaining, retry, reset, delay
end

-- An error of one side must not keep the other from being judged.
for i = 1, #steps do
  local ok, e = pcall(judge, i)
  if not ok then
    local n = #reply
    unjudged = true
    if type(e) == 'table' then e = e.err end
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = -1, tostring(e), 0, 0, 0
  end
end

if changed then
  -- A record lives until it is as if unused, and a second more.
  local function ttl_of(us) return math.max(least_ttl, ceil_div(us, 1000) + 1000) end
  local ttl = ttl_of(idle)
  record = (parts[1] or '') .. (parts[2] or '')
  if other and not (parts[1] and parts[2]) then
    record, unjudged = record .. other, true
  end
  if unjudged then ttl = math.max(ttl, redis.call('PTTL', KEYS[1])) end
  redis.call('SET', KEYS[1], record, 'PX', whole(ttl))
  for key, reset in pairs(log_ttl) do redis.call('PEXPIRE', key, whole(ttl_of(reset))) end
end
return reply
