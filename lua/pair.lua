-- One key's record, one or two sides, the enforced one first; `steps` and
-- `log_keys` say what they are.
--
-- KEYS: the record, then the sorted set of each side that has one.
-- ARGV: the instant in microseconds or '' for the server's clock, the least time
--       to live in milliseconds, the cost; per side its 8-character name and the
--       three terms of its limit. If the pair is numbered, its epoch times COUNT and
--       the least time to live of the record. If the side follows, the leading
--       side's number, whether it counted the charge (1 or 0), whether it was as if
--       unused, and whether the follower waits for its predecessors.
-- Reply: the instant, the number before the charge, the instant apart; per side
--       status, remaining, retry, reset, delay. Status is 1 allowed, 0 denied, -1 an
--       error, whose text is in place of remaining, -2 not judged yet.
--
-- The record is a string of parts: a side's name and the four numbers of its
-- state, in binary where there is struct, which is cheaper than text.
-- A part that cannot be read counts as missing. A numbered pair's record has always two
-- parts, if need be one that is no side's, and a third one of the form of a part with the
-- numbers of both and the instant apart: algorithms/number.go says what they mean.

local COUNT = 137438953472 -- 2^37: a number is an epoch above a count of 37 bits
local NUMBERS, NO_PART = 'NUMBERS0', 'NOPART00' -- no side's: their parts' names are in lower case
local struct = rawget(_G, 'struct')
local at, least_ttl, cost = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if at == '' then
  local t = redis.call('TIME')
  at = t[1] * 1000000 + t[2]
else
  at = tonumber(at)
end

-- parts[1] and parts[2] are the charged sides', parts[3] is another one; number[i] is that of
-- parts[i], 0 where it has none. held says which parts the record has, in its order.
local parts, number, held, apart, numbers = {}, {0, 0, 0}, {}, 0, nil
local second = steps[2] and ARGV[8]

local function sort_in(part)
  local name, i = string.sub(part, 1, 8), 3
  if name == NUMBERS then
    numbers = part
    return
  elseif name == ARGV[4] then
    i = 1
  elseif name == second then
    i = 2
  elseif name == NO_PART then
    return
  end
  parts[i] = parts[i] or part
  held[#held + 1] = i
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

if numbers then
  local first, last
  first, last, apart = state_of(numbers)
  number[held[2] or 3] = last
  number[held[1] or 3] = first
end

local epoch, lead = tonumber(ARGV[4 * #steps + 4]), tonumber(ARGV[4 * #steps + 6])
local lead_counted, lead_unused, patient = ARGV[4 * #steps + 7], ARGV[4 * #steps + 8], ARGV[4 * #steps + 9]

-- A side that is ahead of its predecessors waits for them, unless too many are missing.
if patient == '1' then
  local own = number[1]
  local gap = (lead - own) % COUNT
  local behind = own > 0 and own - own % COUNT == lead - lead % COUNT and gap > 0 and gap <= 65536
  if not parts[1] or behind then return {at, 0, 0, -2, 0, 0, 0, 0} end
end

local reply, judged, changed, unjudged, idle, log_ttl = {at, 0, 0}, {}, false, false, 0, {}

local function judge(i)
  local last, used, aux, seq = 0, 0, 0, 0
  if parts[i] then last, used, aux, seq = state_of(parts[i]) end
  local arg, n, key = 4 * i, #reply, KEYS[log_keys[i]]
  local allowed, remaining, retry, reset, delay
  incomplete = false
  allowed, remaining, retry, reset, delay, last, used, aux, seq = steps[i](last, used, aux, seq,
    tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3]), cost, at, key)
  if allowed and cost > 0 then
    parts[i], changed = encode(ARGV[arg], last, used, aux, seq), true
    if key then log_ttl[key] = reset end
  end
  if incomplete then number[i] = 0 end
  if reset > idle then idle = reset end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = allowed and 1 or 0, remaining, retry, reset, delay
end

-- An error of one side must not keep the other from being judged.
for i = 1, #steps do
  local ok, e = pcall(judge, i)
  judged[i] = ok
  if not ok then
    local n = #reply
    unjudged = true
    if type(e) == 'table' then e = e.err end
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = -1, tostring(e), 0, 0, 0
  end
end

-- The answer of side i begins at reply[5 * i - 1]. The first term of each limit is its capacity.
local function admitted(i) return cost > 0 and reply[5 * i - 1] == 1 end

local function was_unused(i)
  local spent = admitted(i) and cost or 0
  return reply[5 * i] + spent == tonumber(ARGV[4 * i + 1])
end

local function of_epoch(n) return n >= epoch and n < epoch + COUNT end

local function next_of(n)
  if (n + 1) % COUNT == 0 then return n + 1 - COUNT end
  return n + 1
end

local function valid(n)
  if of_epoch(n) then return n end
  return epoch + at % COUNT
end

local function empty(i) return encode(ARGV[4 * i], 0, 0, 0, 0) end

-- together numbers two sides that this charge has judged. That both were as if unused says more than numbers do.
local function together()
  local taken = number[1]
  local in_step = taken == number[2] and of_epoch(taken)
  if not in_step or apart ~= 0 then
    taken = valid(taken)
    if was_unused(1) and was_unused(2) then
      apart = 0
    elseif not in_step then
      apart = at
    end
  end
  reply[2], reply[3] = taken, apart

  -- The part of a side that denies is stored, too: its number says that it has had the charge.
  if admitted(1) then taken = next_of(taken) end
  number[1], number[2] = taken, taken
  if changed then parts[1], parts[2] = parts[1] or empty(1), parts[2] or empty(2) end
end

-- alone numbers a side that leads without the other one. The other one's number stays.
local function alone(i)
  number[i] = valid(number[i])
  reply[2], reply[3] = number[i], apart
  if admitted(i) then number[i] = next_of(number[i]) end
end

-- follow numbers a side that follows, and has its part stored where the charge counts for it or where it was found to
-- lack charges, for it would otherwise be waited for again.
local function follow()
  local unused = lead_unused == '1' and was_unused(1)
  local lacks = number[1] ~= lead and not unused
  if unused then
    apart = 0
  elseif lacks then
    apart = at
  end
  reply[2], reply[3] = lead, apart

  number[1] = lead_counted == '1' and next_of(lead) or lead
  if lacks or lead_counted == '1' or changed then
    parts[1], changed = parts[1] or empty(1), true
  end
end

if epoch then
  if judged[1] and judged[2] then
    together()
  elseif lead and judged[1] then
    follow()
  elseif judged[1] then
    alone(1)
  elseif judged[2] then
    alone(2)
  end
end

if changed then
  -- A record lives until it is as if unused, and a second more.
  local function ttl_of(us) return math.max(least_ttl, ceil_div(us, 1000) + 1000) end
  local ttl = ttl_of(idle)

  -- Room is for two: the charged parts first, and then another one.
  local one, two = 1, 2
  if not parts[1] then one = 2 end
  if one == 2 or not parts[2] then two = 3 end
  if two == 3 and parts[3] then unjudged = true end
  record = parts[one] .. (parts[two] or '')

  -- The numbers come third. Every write of a release that does not know them takes them for a third part and drops them.
  if epoch then
    ttl = math.max(ttl, tonumber(ARGV[4 * #steps + 5]))
    if not parts[two] then record = record .. encode(NO_PART, 0, 0, 0, 0) end
    record = record .. encode(NUMBERS, number[one], number[two], apart, 0)
  end

  if unjudged then ttl = math.max(ttl, redis.call('PTTL', KEYS[1])) end
  redis.call('SET', KEYS[1], record, 'PX', whole(ttl))
  for key, reset in pairs(log_ttl) do redis.call('PEXPIRE', key, whole(ttl_of(reset))) end
end
return reply
