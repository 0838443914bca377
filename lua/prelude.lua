-- What every script shares. Numbers are whole and below 2^53, where a double is
-- exact; `%` rounds towards minus infinity. No number becomes text but by
-- whole(): tostring and `..` keep 14 digits.
--
-- A state is {last, used, aux, seq} as in algorithms.State, seq being the log's
-- alone; a limit is {a, b, c} as in algorithms.Terms. A decision's waits are
-- microseconds; NEVER is the wait that does not end.

local NEVER = -1

local function whole(x) return string.format('%.0f', x) end

local function floor_div(a, b) return (a - a % b) / b end

local function ceil_div(a, b)
  local rest = a % b
  if rest > 0 then return (a - rest) / b + 1 end
  return a / b
end

-- now_of returns the instant at which the state is judged: never before its own.
local function now_of(s, at)
  if s.used > 0 and s.last > at then return s.last end
  return at
end

-- admits reports whether cost fits into what is free; a peek always does.
local function admits(cost, free) return cost == 0 or cost <= free end

-- The codec of a record: parts of a side's 8-character name and four numbers.
-- struct is 2.5 times cheaper than text, but not everything that speaks Redis
-- has it. A part that is not whole or not sane is no part.
local function sane(last, used, aux, seq)
  for _, x in ipairs({last, used, aux, seq}) do
    if x ~= math.floor(x) or math.abs(x) > 9007199254740992 then return nil end
  end
  if used < 0 or seq < 0 then return nil end
  return {last = last, used = used, aux = aux, seq = seq}
end

local encode, decode, split
local struct = rawget(_G, 'struct')
if struct then
  encode = function(name, s) return name .. struct.pack('<dddd', s.last, s.used, s.aux, s.seq) end
  decode = function(part)
    if #part ~= 40 then return nil end
    return sane(struct.unpack('<dddd', part, 9))
  end
  split = function(record)
    local parts = {}
    for i = 1, #record, 40 do parts[#parts + 1] = string.sub(record, i, i + 39) end
    return parts
  end
else
  encode = function(name, s)
    return name .. ' ' .. whole(s.last) .. ' ' .. whole(s.used) .. ' ' .. whole(s.aux) .. ' ' .. whole(s.seq) .. '\n'
  end
  decode = function(part)
    local last, used, aux, seq = string.match(part, '^%w+ (%-?%d+) (%d+) (%-?%d+) (%d+)\n$')
    if not last then return nil end
    return sane(tonumber(last), tonumber(used), tonumber(aux), tonumber(seq))
  end
  split = function(record)
    local parts = {}
    for part in string.gmatch(record, '[^\n]*\n') do parts[#parts + 1] = part end
    return parts
  end
end
