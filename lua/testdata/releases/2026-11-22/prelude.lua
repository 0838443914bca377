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
