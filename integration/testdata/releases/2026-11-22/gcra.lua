-- Every script begins with this file. Numbers are whole and below 2^53, where a double
-- is exact; `%` rounds towards minus infinity. A number becomes text by whole() only:
-- tostring and `..` keep 14 digits.
--
-- A step takes the state (last, used, aux, as in algorithms.State, and the log's
-- seq), the three terms of the limit, the cost, the instant and the key of its
-- sorted set. It returns allowed, remaining, retry, reset and delay, the waits in
-- microseconds, and the state, which is stored if the charge was admitted. Values
-- travel without tables, which would cost more than the arithmetic.

local NEVER = -1 -- the wait that does not end

local function whole(x) return string.format('%.0f', x) end

local function floor_div(a, b) return (a - a % b) / b end

local function ceil_div(a, b)
  local rest = a % b
  if rest > 0 then return (a - rest) / b + 1 end
  return a / b
end

-- now_of returns the instant at which a state is judged: never before its last.
local function now_of(last, used, at)
  if used > 0 and last > at then return last end
  return at
end
-- The buckets keep one number: the debt, in units of which a token is `token` and
-- of which `drain` drain per microsecond; see bucket.go. State: last is the
-- instant of the debt, used the debt, aux the `token` it was counted in.

local function debt_of(last, used, aux, burst, token, drain, now)
  if used == 0 or aux < 1 then return 0 end
  local debt = used
  if aux ~= token then debt = math.min(ceil_div(debt, aux), burst) * token end
  debt = math.min(debt, burst * token)
  local elapsed = now - last
  if elapsed >= ceil_div(debt, drain) then return 0 end
  return debt - elapsed * drain
end

-- drained returns the wait from at until a debt of now is gone.
local function drained(debt, drain, now, at)
  if debt == 0 then return 0 end
  return ceil_div(debt, drain) + now - at
end

-- bucket judges a charge. Its delay is the wait for what the charge found owing.
local function bucket(last, used, aux, seq, burst, token, drain, cost, at)
  local now = now_of(last, used, at)
  local capacity, debt = burst * token, debt_of(last, used, aux, burst, token, drain, now)
  local delay = drained(debt, drain, now, at)
  local allowed, retry = cost == 0 or cost <= floor_div(capacity - debt, token), 0
  if allowed then
    debt = debt + cost * token
  elseif cost > burst then
    retry = NEVER
  else
    retry = ceil_div(debt - (burst - cost) * token, drain) + now - at
  end
  return allowed, floor_div(capacity - debt, token), retry, drained(debt, drain, now, at), delay, now, debt, token, 0
end
-- gcra: the theoretical arrival time is the instant at which the debt is gone,
-- and a cell conforms if that is at most burst*T ahead.
local function gcra(...)
  local allowed, remaining, retry, reset, _, last, used, aux, seq = bucket(...)
  return allowed, remaining, retry, reset, 0, last, used, aux, seq
end
local steps, log_keys = {gcra}, {0}
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
