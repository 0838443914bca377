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
-- A part that cannot be read counts as missing. A numbered pair's record has one more part
-- with the numbers of both and the instant apart: algorithms/number.go says what they mean.

local struct = rawget(_G, 'struct')
local COUNT = 137438953472 -- 2^37: a number is an epoch above a count of 37 bits
local HOUR = 3600000   -- the least time to live at an injected instant, in milliseconds
local NUMBERS = 'NUMBERS0' -- no side's: their parts' names are in lower case

-- Adding 0 makes a number of a text in half the time that tonumber takes.
local at, least_ttl, cost = ARGV[1], ARGV[2] + 0, ARGV[3] + 0
if at == '' then
  local t = redis.call('TIME')
  at = t[1] * 1000000 + t[2]
else
  at = at + 0
end

local more = 5 * #steps + 4 -- the first argument behind the sides
local second, epoch, lead = steps[2] and ARGV[9], ARGV[more], nil
if epoch then
  lead = ARGV[more + 1]
  epoch, lead = epoch + 0, lead and lead + 0
end

-- A record in its usual form has the charged sides in their order and no other one, and the numbers if the charge has an
-- epoch. It takes one unpack and one pack. Any other record is read and written part by part, by functions that are made
-- only then: Redis makes every function of a script again in each call.
local count = 5 * (#steps + (epoch and 1 or 0))
local form = count == 15 and '<c8ddddc8ddddc8dddd' or count == 10 and '<c8ddddc8dddd' or '<c8dddd'

-- sound reports whether four fields can be a state. A text may be none of a number: miniredis reads no number of 22 digits.
local function sound(f, i)
  local last, used, aux, seq, most = f[i], f[i + 1], f[i + 2], f[i + 3], 9007199254740992
  return last and used and aux and seq and last % 1 == 0 and used % 1 == 0 and aux % 1 == 0 and seq % 1 == 0
    and last >= -most and last <= most and used >= 0 and used <= most
    and aux >= -most and aux <= most and seq >= 0 and seq <= most
end

-- fields are those of the usual form: fields[5 * i - 4] is side i's name, or false if it has no part, and its state is
-- behind it, and then the numbers. number and other_number are the sides', 0 where there is none.
local numbers_at = 5 * #steps + 1
local fields, number, other_number, apart = nil, 0, 0, 0
local third, third_number = nil, 0 -- the part of another side, as it is stored, and its number
local record = redis.call('GET', KEYS[1])

if record and struct and #record == 8 * count then
  local f = {struct.unpack(form, record)}
  if f[1] == ARGV[4] and sound(f, 2) and (not second or f[6] == second and sound(f, 7))
    and (not epoch or f[numbers_at] == NUMBERS and sound(f, numbers_at + 1)) then
    fields = f
    if epoch then number, other_number, apart = f[numbers_at + 1], f[numbers_at + 2], f[numbers_at + 3] end
  end
end

local usual = fields
fields = fields or second and {false, 0, 0, 0, 0, false, 0, 0, 0, 0, NUMBERS, 0, 0, 0, 0} or {false, 0, 0, 0, 0, NUMBERS, 0, 0, 0, 0}
if record and not usual then
  local order, numbers = {}, nil

  -- state_of returns the four numbers of a part, zeros where it cannot be read.
  local function state_of(part)
    local state
    if not struct then
      state = {string.match(part, '^%w+ (%-?%d+) (%d+) (%-?%d+) (%d+)\n$')}
      for i = 1, #state do state[i] = tonumber(state[i]) end
    elseif #part == 40 then
      state = {struct.unpack('<dddd', part, 9)}
    end
    if state and sound(state, 1) then return state[1], state[2], state[3], state[4] end
    return 0, 0, 0, 0
  end

  local function sort_in(part)
    local name, i = string.sub(part, 1, 8), 3
    if name == NUMBERS then
      numbers = part
      return
    end

    -- The first part of a name counts.
    if name == ARGV[4] then
      i = 1
    elseif name == second then
      i = 2
    end
    order[#order + 1] = i
    if i == 3 then
      third = third or part
    elseif not fields[5 * i - 4] then
      local n = 5 * i - 4
      fields[n], fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = name, state_of(part)
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
  if not fields[1] or behind then return {at, -2, 0, 0, 0, 0, 0, 0} end
end

-- The reply has room for all that it can have: a table that grows costs more than the values.
local reply = {at, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}
local changed, unjudged, idle, log_ttl = false, false, 0, nil

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
  fields[n], fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = ARGV[5 * i - 1], at, 0, 0, 0
  changed = true
  if i == 1 then number = 0 else other_number = 0 end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = -1, 'LOGSHED', 0, 0, 0
  return true
end

-- judge steps side i. The window is left a text, because few charges need it.
local function judge(i)
  local arg, n, key = 5 * i - 1, 5 * i - 4, KEYS[log_keys[i]]
  local before, spent = fields[n + 1], fields[n + 2]
  local allowed, remaining, retry, reset, delay, last, used, aux, seq = steps[i](before, spent, fields[n + 3], fields[n + 4],
    ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0, cost, at, key, ARGV[arg + 4])

  -- A denial and a look change a state only where the clock was set back. A state that is not used has no instant.
  if allowed and cost > 0 or spent > 0 and last < before then
    fields[n], fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = ARGV[arg], last, used, aux, seq
    changed = true
    if key then
      log_ttl = log_ttl or {}
      log_ttl[key] = reset
    end
  end
  if reset > idle then idle = reset end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = allowed and 1 or 0, remaining, retry, reset, delay
end

-- An error of one side must not keep the other from being judged. Only a step with a log can fail, at its sorted set.
for i = 1, #steps do
  local ok, e = true, nil
  if log_keys[i] == 0 then judge(i) else ok, e = pcall(judge, i) end
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
      -- Where nothing was taken, the key is still unused: of a limit of 0 nothing remains in any case.
      if reply[5 * i - 3] == 1 and cost > 0 then
        unused = unused and reply[5 * i - 2] + cost == tonumber(ARGV[5 * i])
      else
        unused = unused and reply[5 * i] == 0
      end
    end
    if unused then
      apart = 0
    elseif not in_step then
      apart = at
      for i = 1, #steps do
        local last, used = fields[5 * i - 3], fields[5 * i - 2]
        if used > 0 and last > apart then apart = last end -- a clock went back
      end
      changed = changed or follows
    end
  end
  reply[5 * #steps + 2], reply[5 * #steps + 3] = taken, apart

  -- A side that is judged without the other one leaves that one's number as it is, so that the next charge of both
  -- finds the difference.
  local counted = cost > 0 and reply[5 * leads - 3] == 1
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
  if epoch and reply[2] ~= -1 then fields[1] = ARGV[4] end
  if epoch and second and reply[7] ~= -1 then fields[6] = second end

  -- Room is for two parts: the charged ones first, and then another one.
  local both = fields[1] and second and fields[6]
  unjudged = unjudged or third and not both

  -- A record lives until it is as if unused, and a second more.
  local ttl = ceil_div(idle, 1000) + 1000
  if ttl < least_ttl then ttl = least_ttl end
  if unjudged then ttl = math.max(ttl, redis.call('PTTL', KEYS[1])) end

  if struct and (both or fields[1] and not second and not third) then
    if epoch then fields[numbers_at + 1], fields[numbers_at + 2], fields[numbers_at + 3] = number, other_number, apart end
    record = struct.pack(form, unpack(fields, 1, count))
  else
    local function part_of(name, last, used, aux, seq)
      if struct then return struct.pack('<c8dddd', name, last, used, aux, seq) end
      return name .. ' ' .. whole(last) .. ' ' .. whole(used) .. ' ' .. whole(aux) .. ' ' .. whole(seq) .. '\n'
    end

    local one, two = fields[1] and part_of(unpack(fields, 1, 5)), second and fields[6] and part_of(unpack(fields, 6, 10))
    local one_number, two_number = number, other_number
    if not one then
      one, one_number = two, other_number
      two = nil
    end
    if not two then two, two_number = third, third_number end

    record = one .. (two or '')
    if epoch then record = record .. part_of(NUMBERS, one_number, two_number, apart, 0) end
  end
  local refused = redis.pcall('SET', KEYS[1], record, 'PX', ttl).err
  if refused and not (give_up and give_up(refused)) then
    return {err = string.match(refused, '^%-?([^\r\n]*)')} -- some releases of Redis leave the protocol's signs in it
  end
  give_up = nil -- a server that refuses writes even then must not run this loop for ever

  -- A log lives as long as its side needs it: what the other store keeps is no reason to keep a large one.
  if log_ttl then
    local least = math.min(least_ttl, HOUR)
    for key, reset in pairs(log_ttl) do
      redis.call('PEXPIRE', key, math.max(least, ceil_div(reset, 1000) + 1000))
    end
  end
end
return reply
