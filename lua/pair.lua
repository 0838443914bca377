-- One key's record, one or two sides, the enforced one first; `steps` and
-- `log_keys` say what they are.
--
-- KEYS: the record, then the sorted set of each side that has one.
-- ARGV: the instant in microseconds or '' for the server's clock, the least time
--       to live in milliseconds, the cost; per side its 8-character name and the
--       four terms of its limit. If the pair is numbered, its epoch times COUNT. If
--       the side follows, the leading side's number, whether it counted the charge
--       (1 or 0), whether it was as if unused, and whether the follower waits for
--       its predecessors.
-- Reply: the instant; per side status, remaining, retry, reset, delay; with an epoch
--       the number before the charge and the instant apart. Status is 1 allowed,
--       0 denied, -1 an error, whose text is in place of remaining, -2 not judged yet.
--
-- The record is a string of parts: a side's name and the four numbers of its
-- state, in binary where there is struct, which is cheaper than text.
-- A part that cannot be read counts as missing. A numbered pair's record has always two
-- parts, if need be one that is no side's, and a third one of the form of a part with the
-- numbers of both and the instant apart: algorithms/number.go says what they mean.

local struct = rawget(_G, 'struct')
local COUNT = 137438953472 -- 2^37: a number is an epoch above a count of 37 bits
local HOUR = 3600000   -- the least time to live at an injected instant, in milliseconds
local NUMBERS, NO_PART = 'NUMBERS0', 'NOPART00' -- no side's: their parts' names are in lower case
local EMPTY = 'NOPART00 0 0 0 0\n'
if struct then EMPTY = 'NOPART00\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' end
local at, least_ttl, cost = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if at == '' then
  local t = redis.call('TIME')
  at = t[1] * 1000000 + t[2]
else
  at = tonumber(at)
end

local more = 5 * #steps + 4 -- the first argument behind the sides
local epoch, lead = ARGV[more], nil
if epoch then epoch, lead = tonumber(epoch), tonumber(ARGV[more + 1]) end

local function encode(name, last, used, aux, seq)
  if struct then return struct.pack('<c8dddd', name, last, used, aux, seq) end
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

-- parts[1] and parts[2] are of the charged sides, parts[3] is another one. number, other_number and third_number are
-- theirs, 0 where there is none.
local parts, number, other_number, third_number, apart = {}, 0, 0, 0, 0

-- Nearly every record has the charged sides in their order and no other one. That is read without a loop, which would
-- take twice the time.
local record, second = redis.call('GET', KEYS[1]), steps[2] and ARGV[9]
local usual = second or epoch and NO_PART or '' -- the name of the part behind the first one
if record and struct and string.sub(record, 1, 8) == ARGV[4] and string.sub(record, 41, 48) == usual then
  parts[1] = string.sub(record, 1, 40)
  if second then parts[2] = string.sub(record, 41, 80) end
  if epoch and #record == 120 then
    local name, first, last, since = struct.unpack('<c8ddd', record, 81)
    if name == NUMBERS then number, other_number, apart = first, last, since end
  end

elseif record then
  local order, numbers = {}, nil
  local function sort_in(part)
    local name, i = string.sub(part, 1, 8), 3
    if name == ARGV[4] then
      i = 1
    elseif name == second then
      i = 2
    elseif name == NUMBERS then
      numbers = part
    end
    if name ~= NUMBERS and name ~= NO_PART then
      parts[i] = parts[i] or part
      order[#order + 1] = i
    end
  end
  if struct then
    for i = 1, #record, 40 do sort_in(string.sub(record, i, i + 39)) end
  else
    for part in string.gmatch(record, '[^\n]*\n') do sort_in(part) end
  end

  -- The two numbers are those of the first and of the second part in the record's order.
  if numbers then
    local by_part, one, two = {0, 0, 0}, 0, 0
    one, two, apart = state_of(numbers)
    by_part[order[2] or 3] = two
    by_part[order[1] or 3] = one
    number, other_number, third_number = by_part[1], by_part[2], by_part[3]
  end
end

-- A side that is ahead of its predecessors waits for them, unless too many are missing.
if lead and ARGV[more + 4] == '1' then
  local gap = (lead - number) % COUNT
  local behind = number > 0 and number - number % COUNT == lead - lead % COUNT and gap > 0 and gap <= 65536
  if not parts[1] or behind then return {at, -2, 0, 0, 0, 0, 0, 0} end
end

local reply, changed, unjudged, idle, log_ttl = {at}, false, false, 0, nil

-- A Redis that is out of memory refuses the writes of a script, but none after one that takes no memory. Then the side
-- that is not enforced, which is the last one, gives its log up: its memory must not fail the enforced side. Only a
-- record that is there is written so. New ones stay refused, or clients with new keys would grow Redis without a bound.
shed_key = record and KEYS[log_keys[2] or lead and log_keys[1] or 0]
local give_up = shed_key and function(e)
  local text = type(e) == 'table' and e.err or e
  if not string.find(tostring(text), 'OOM ', 1, true) then return false end
  drop(shed_key)

  -- An instant without any cost says when the log was given up. The number 0 makes the sides apart.
  local i = #steps
  local n = 5 * i - 4
  parts[i], changed = encode(ARGV[5 * i - 1], at, 0, 0, 0), true
  if i == 1 then number = 0 else other_number = 0 end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = -1, 'LOGSHED', 0, 0, 0
  return true
end

local function judge(i)
  local last, used, aux, seq = 0, 0, 0, 0
  if parts[i] then last, used, aux, seq = state_of(parts[i]) end
  local arg, n, key, before = 5 * i - 1, 5 * i - 4, KEYS[log_keys[i]], used > 0 and last or -math.huge
  local allowed, remaining, retry, reset, delay
  allowed, remaining, retry, reset, delay, last, used, aux, seq = steps[i](last, used, aux, seq,
    tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3]), cost, at, key, tonumber(ARGV[arg + 4]))
  -- A denial and a look change a state only where the clock was set back. A state that is not used has no instant.
  if allowed and cost > 0 or last < before then
    parts[i], changed = encode(ARGV[arg], last, used, aux, seq), true
    if key then
      log_ttl = log_ttl or {}
      log_ttl[key] = reset
    end
  end
  if reset > idle then idle = reset end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = allowed and 1 or 0, remaining, retry, reset, delay
end

-- An error of one side must not keep the other from being judged.
for i = 1, #steps do
  local ok, e = pcall(judge, i)
  if not ok and give_up and give_up(e) then ok, e = pcall(judge, i) end
  if incomplete and i == 1 then number = 0 elseif incomplete then other_number = 0 end
  incomplete = false
  if not ok then
    local n = 5 * i - 4
    unjudged = true
    if type(e) == 'table' then e = e.err end
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = -1, tostring(e), 0, 0, 0
  end
end

-- Side i has the reply from 5 * i - 3 on. The side that leads is the first one, unless that has failed.
local leads = reply[2] == -1 and 2 or 1
local follows, together = lead and not unjudged, second and not unjudged
if epoch and (reply[5 * leads - 3] or -1) ~= -1 then
  local taken, in_step = lead, number == lead
  if not follows then
    -- Where the numbers differ, the count begins again: no number may be given twice.
    taken = leads == 1 and number or other_number
    in_step = taken >= epoch and taken < epoch + COUNT and (not together or number == other_number)
    if not in_step then taken = epoch + at % COUNT * 40503 % COUNT end
  end

  -- Sides that have not had the same charges are apart from now on: unless both were as if unused, which says more than
  -- numbers do. The first term of a limit is its capacity. A part that follows and lacked charges is stored in any
  -- case: it would otherwise be waited for again.
  if (together or follows) and (not in_step or apart ~= 0) then
    local unused = together or ARGV[more + 3] == '1'
    for i = 1, #steps do
      local spent = reply[5 * i - 3] == 1 and cost or 0
      unused = unused and reply[5 * i - 2] + spent == tonumber(ARGV[5 * i])
    end
    if unused then
      apart = 0
    elseif not in_step then
      apart = at
      for i = 1, #steps do
        local last, used = state_of(parts[i] or EMPTY)
        if used > 0 and last > apart then apart = last end -- a clock went back
      end
      changed = changed or follows
    end
  end
  reply[5 * #steps + 2], reply[5 * #steps + 3] = taken, apart

  -- A side that is judged without the other one leaves that one's number as it is, so that the next charge of both
  -- finds the difference.
  local counted = reply[5 * leads - 3] == 1 and cost > 0
  if follows then
    counted = ARGV[more + 2] == '1'
    changed = changed or counted
  end
  if counted then
    taken = (taken + 1) % COUNT == 0 and taken + 1 - COUNT or taken + 1
  elseif changed and not together and not follows then
    taken = 0 -- a clock was set back, and the other part has not been moved
  end
  if leads == 1 then number = taken end
  if leads == 2 or together then other_number = taken end
elseif epoch then
  reply[5 * #steps + 2], reply[5 * #steps + 3] = 0, 0
end

-- A record is stored once, and once more if a log had to be given up for it.
while changed do
  changed = false
  -- With an epoch the part of a side that denies is stored, too: its number says that it has had the charge.
  if epoch and not parts[1] and reply[2] ~= -1 then parts[1] = encode(ARGV[4], 0, 0, 0, 0) end
  if epoch and not parts[2] and second and reply[7] ~= -1 then parts[2] = encode(second, 0, 0, 0, 0) end

  -- Room is for two: the charged parts first, and then another one.
  local one, two = parts[1], parts[2]
  if not one then one, number, two = two, other_number, nil end
  if not two then
    two, other_number = parts[3], third_number
    unjudged = unjudged or two
  end

  -- A record lives until it is as if unused, and a second more.
  local ttl = math.max(least_ttl, ceil_div(idle, 1000) + 1000)
  if unjudged then ttl = math.max(ttl, redis.call('PTTL', KEYS[1])) end

  -- The numbers come third. Every write of a release that does not know them takes them for a third part and drops them.
  if epoch then
    record = one .. (two or EMPTY) .. encode(NUMBERS, number, other_number, apart, 0)
  else
    record = one .. (two or '')
  end
  local refused = redis.pcall('SET', KEYS[1], record, 'PX', whole(ttl)).err
  if refused and not (give_up and give_up(refused)) then
    return {err = string.match(refused, '^%-?([^\r\n]*)')} -- some releases of Redis leave the protocol's signs in it
  end
  give_up = nil -- a server that refuses writes even then must not run this loop for ever

  -- A log lives as long as its side needs it: what the other store keeps is no reason to keep a large one.
  if log_ttl then
    least_ttl = math.min(least_ttl, HOUR)
    for key, reset in pairs(log_ttl) do
      redis.call('PEXPIRE', key, whole(math.max(least_ttl, ceil_div(reset, 1000) + 1000)))
    end
  end
end
return reply
