-- One key's record of one or two groups, the enforced one first; `functions`,
-- `plain`, `counts_denied` and `keeps_phase` have the members' steps by their number.
--
-- KEYS: the record.
-- ARGV: the instant in microseconds or '' for the server's clock, the least time
--       to live in milliseconds, the cost, the number of sides; the epoch times COUNT
--       or ''; the leading side's number or '', whether it counted the charge, whether
--       it was as if unused, and whether the follower waits for its predecessors. Then
--       per side its 8-character name, 1 if it charges all or nothing, the number
--       of its members, and per member an 8-character name, the number of its
--       step, and the four terms of its limit.
-- Reply: the instant; per side status, remaining, retry, reset, delay, the member that
--       supplies the answer, and 1 if the side was unused, plus 2 if the charge was
--       partial; with an epoch the number before the charge and the instant apart.
--       Status is 1 allowed, 0 denied, -2 not judged yet.
--
-- The record is a string of parts as in pair.lua. A side's part begins with G, and holds the instant apart (the first
-- one's) and the side's number. Its members' parts follow it, those that were charged last first.

local struct = rawget(_G, 'struct')
local COUNT = 137438953472 -- 2^37: a number is an epoch above a count of 37 bits
local SIDE = 71            -- the byte G: members' names are in lower case
local MOST = 8             -- members of a side
local HEAD, MEMBER = 9, 6  -- arguments before the sides, and of a member

local at, least_ttl, cost, count = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
if at == '' then
  local t = redis.call('TIME')
  at = t[1] * 1000000 + t[2]
else
  at = at + 0
end
local epoch, lead = tonumber(ARGV[5]), tonumber(ARGV[6])

-- sound reports whether four fields can be a state. A text may be none of a number: miniredis reads no number of 22 digits.
local function sound(last, used, aux, seq)
  local most = 9007199254740992
  return last and used and aux and seq and last % 1 == 0 and used % 1 == 0 and aux % 1 == 0 and seq % 1 == 0
    and last >= -most and last <= most and used >= 0 and used <= most
    and aux >= -most and aux <= most and seq >= 0 and seq <= most
end

-- A table that names all its fields has room for them at once: to add them one by one would take longer than the steps.
local function new_side(name, number, new)
  return {name = name, number = number, new = new, all = false, size = 0, arg = 0, members = {},
    unused = false, silent = false, counted = false}
end
local function new_member(name, last, used, aux, seq)
  return {name = name, last = last, used = used, aux = aux, seq = seq, arg = 0, step = 0,
    allowed = false, remaining = 0, retry = 0, reset = 0, delay = 0, units = 0, stored = false, next = false}
end

-- stored are the sides of the record in their order. A part that cannot be read counts as missing: it never hides the
-- parts behind it.
local stored, apart = {}, 0
local function sort_in(name, last, used, aux, seq)
  local good, side = sound(last, used, aux, seq), stored[#stored]
  if string.byte(name) == SIDE then
    if #stored == 0 and good then apart = last end
    stored[#stored + 1] = new_side(name, good and used or 0, false)
  elseif side and good and #side.members < MOST then
    side.members[#side.members + 1] = new_member(name, last, used, aux, seq)
  end
end

local record = redis.call('GET', KEYS[1])
if record and struct then
  local parts = math.min(floor_div(#record, 40), 3 * (MOST + 1))
  local fields = {struct.unpack('<' .. string.rep('c8dddd', parts), record)}
  for i = 1, 5 * parts, 5 do sort_in(fields[i], fields[i + 1], fields[i + 2], fields[i + 3], fields[i + 4]) end
elseif record then
  for part in string.gmatch(record, '[^\n]*\n') do
    local last, used, aux, seq = string.match(part, '^%w+ (%-?%d+) (%d+) (%-?%d+) (%d+)\n$')
    sort_in(string.sub(part, 1, 8), tonumber(last), tonumber(used), tonumber(aux), tonumber(seq))
  end
end

-- take removes the first side or member of that name from a list and returns it.
local function take(list, name)
  for i = 1, #list do
    if list[i].name == name then return table.remove(list, i) end
  end
end

-- sides are those of the charge. One that has no part yet is new: it is stored if it changes.
local sides, arg = {}, HEAD + 1
for i = 1, count do
  local side = take(stored, ARGV[arg]) or new_side(ARGV[arg], 0, true)
  side.all, side.size, side.arg = ARGV[arg + 1] == '1', ARGV[arg + 2] + 0, arg + 3
  sides[i] = side
  arg = side.arg + MEMBER * side.size
end

-- A side that is ahead of its predecessors waits for them, unless too many are missing.
if lead and ARGV[9] == '1' then
  local side = sides[1]
  local gap = (lead - side.number) % COUNT
  local behind = side.number > 0 and side.number - side.number % COUNT == lead - lead % COUNT and gap > 0 and gap <= 65536
  if side.new or behind then return {at, -2, 0, 0, 0, 0, 0, 0, 0, 0} end
end

local reply, changed, idle = {at}, false, 0

-- ask has a member's step judge a cost. The state after it is m.next, which is false where it is the one before it.
local function ask(m, units)
  local arg = m.arg
  local allowed, remaining, retry, reset, delay, last, used, aux, seq = functions[m.step](m.last, m.used, m.aux, m.seq,
    ARGV[arg + 2] + 0, ARGV[arg + 3] + 0, ARGV[arg + 4] + 0, units, at, nil, ARGV[arg + 5])
  m.allowed, m.remaining, m.retry, m.reset, m.delay, m.units = allowed, remaining, retry, reset, delay, units

  -- A denial that does not count, and a look, change a state only where the clock was set back.
  m.stored = allowed and units > 0 or not allowed and counts_denied[m.step] and reset > 0 or m.used > 0 and last < m.last
  m.next = m.stored and {last, used, aux, seq}
end

-- wait_of returns how long the cost has to wait for a member, in its state after the charge.
local function wait_of(m)
  if cost <= m.remaining then return 0 end
  local arg, last, used, aux, seq = m.arg, m.last, m.used, m.aux, m.seq
  if m.next then last, used, aux, seq = unpack(m.next) end
  local _, _, retry = functions[plain[m.step]](last, used, aux, seq,
    ARGV[arg + 2] + 0, ARGV[arg + 3] + 0, ARGV[arg + 4] + 0, cost, at, nil, ARGV[arg + 5])
  return retry
end

-- longer compares waits, of which NEVER is the longest.
local function longer(a, b) return b ~= NEVER and (a == NEVER or a > b) end

-- members_of finds the states of the members that the charge names. The others stay in the side.
local function members_of(side)
  local members = {}
  for i = 1, side.size do
    local arg = side.arg + MEMBER * (i - 1)
    local m = take(side.members, ARGV[arg]) or new_member(ARGV[arg], 0, 0, 0, 0)
    m.arg, m.step = arg, ARGV[arg + 1] + 0
    members[i] = m
  end
  return members
end

-- charge asks the members, and returns the first that denies. Nothing is stored here.
local function charge(side, members)
  local first
  for i = 1, side.size do
    local m = members[i]
    ask(m, first and not side.all and 0 or cost)
    if not m.allowed and not first then first = i end
  end
  if not first then return nil end

  -- All or nothing: members that admit the cost are not charged. Until denied: the wait of every member counts, whether
  -- or not the charge has come to it.
  for i, m in ipairs(members) do
    if side.all and m.allowed then
      ask(m, 0)
    elseif not side.all and i ~= first then
      m.retry = wait_of(m)
    end
  end
  return first
end

-- keep puts the members of the charge before the others, as far as there is room. An unused state is as good as none.
local function keep(side, members)
  local kept = {}
  for i = 1, side.size do
    local m = members[i]
    if m.next then m.last, m.used, m.aux, m.seq = unpack(m.next) end
    if m.used > 0 then kept[#kept + 1] = m end
  end
  for _, m in ipairs(side.members) do
    if #kept < MOST then kept[#kept + 1] = m end
  end
  side.members = kept
end

-- judge steps a side. Its order of members changes only if a state does.
local function judge(side)
  local before = {unpack(side.members)}
  local members = members_of(side)
  local first = charge(side, members)
  local speaks, remaining, retry, reset, delay = first or 1, members[1].remaining, 0, 0, 0
  local stored = false
  side.silent, side.unused = #side.members > 0, #side.members == 0

  for i = 1, side.size do
    local m, best = members[i], members[speaks]
    if not first and m.remaining < best.remaining or first and not m.allowed and longer(m.retry, best.retry) then speaks = i end
    remaining, reset, delay = math.min(remaining, m.remaining), math.max(reset, m.reset), math.max(delay, m.delay)
    if longer(m.retry, retry) then retry = m.retry end
    stored = stored or m.stored

    -- The first term of a limit is its capacity. Where nothing was taken, the key is still unused.
    if m.allowed and m.units > 0 then
      side.unused = side.unused and m.remaining + m.units == tonumber(ARGV[m.arg + 2])
        and (not keeps_phase[m.step] or m.reset == 2 * tonumber(ARGV[m.arg + 3]))
    else
      side.unused = side.unused and m.reset == 0
    end
  end

  local partial = first and not side.all and (first > 1 or counts_denied[members[first].step] and members[first].reset > 0)
  side.counted = cost > 0 and (not first or partial)
  if stored then
    keep(side, members)
    side.new, changed = false, true
  else
    side.members = before
  end

  idle = math.max(idle, reset)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = first and 0 or 1, remaining, first and retry or 0, reset
  reply[n + 5], reply[n + 6], reply[n + 7] = first and 0 or delay, speaks, (side.unused and 1 or 0) + (partial and 2 or 0)
end

for i = 1, count do judge(sides[i]) end

-- The rules of the numbers are those of pair.lua.
local one, two = sides[1], sides[2]
if epoch then
  local taken, in_step = lead, one.number == lead
  if not lead then
    taken = one.number
    in_step = taken >= epoch and taken < epoch + COUNT and (not two or two.number == taken)
    if not in_step then taken = epoch + at % COUNT * 40503 % COUNT end
  end

  if (two or lead) and (not in_step or apart ~= 0) then
    if one.unused and (two or ARGV[8] == '1') and (not two or two.unused) then
      apart = 0
    elseif not in_step then
      apart = at
      for _, side in ipairs(sides) do
        for _, m in ipairs(side.members) do
          if m.last > apart then apart = m.last end -- a clock went back
        end
      end
      changed = changed or lead
    end
  end
  reply[#reply + 1] = taken
  reply[#reply + 1] = apart

  local counted = one.counted
  if lead then
    counted = ARGV[7] == '1'
    changed = changed or counted
  end
  if counted then
    taken = (taken + 1) % COUNT == 0 and taken + 1 - COUNT or taken + 1
  elseif changed and not two and not lead then
    taken = 0 -- a clock was set back, and the other part has not been moved
  end
  one.number = taken
  if two then two.number = taken end
end
if not changed then return reply end

-- Room is for two sides: those of the charge first. With an epoch the part of a side that denies is stored, too.
local kept, lasting = {}, false
for _, side in ipairs(sides) do
  if epoch or not side.new then kept[#kept + 1] = side end
end
for _, side in ipairs(stored) do
  if #kept < 2 then kept[#kept + 1], lasting = side, true end
end

local flat, n = {}, 0
local function add(name, last, used, aux, seq)
  if struct then
    flat[n + 1], flat[n + 2], flat[n + 3], flat[n + 4], flat[n + 5] = name, last, used, aux, seq
    n = n + 5
  else
    n = n + 1
    flat[n] = name .. ' ' .. whole(last) .. ' ' .. whole(used) .. ' ' .. whole(aux) .. ' ' .. whole(seq) .. '\n'
  end
end
for i, side in ipairs(kept) do
  add(side.name, epoch and i == 1 and apart or 0, epoch and side.number or 0, 0, 0)
  for _, m in ipairs(side.members) do add(m.name, m.last, m.used, m.aux, m.seq) end
  lasting = lasting or side.silent
end
if struct then
  record = struct.pack('<' .. string.rep('c8dddd', n / 5), unpack(flat, 1, n))
else
  record = table.concat(flat)
end

-- A record lives until it is as if unused, and a second more. What this charge has not looked at may last longer.
local ttl = math.max(ceil_div(idle, 1000) + 1000, least_ttl)
if lasting then ttl = math.max(ttl, redis.call('PTTL', KEYS[1])) end
local refused = redis.pcall('SET', KEYS[1], record, 'PX', ttl).err
if refused then return {err = string.match(refused, '^%-?([^\r\n]*)')} end -- some releases of Redis leave the protocol's signs in it
return reply
