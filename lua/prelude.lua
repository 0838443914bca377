-- Every script has this file in front of its steps. Numbers are whole and below 2^53, where a double
-- is exact; `%` rounds towards minus infinity. A number becomes text by whole(), or as an
-- argument of redis.call, which writes 17 digits: tostring and `..` keep 14.
--
-- A step takes the state (last, used, aux, as in algorithms.State, and seq, a fourth
-- number for the steps that need one, where a State has its Log), the first three terms of the limit, the cost, the instant, the key of its
-- sorted set and the window in microseconds, which may be a text until ahead() needs it. It
-- returns allowed, remaining, retry, reset and delay, the waits in microseconds, and the
-- state, which is stored if the charge is admitted and costs something, or if its last has gone back: only ahead() lets a
-- step do that. Values travel without tables, which would cost more than the arithmetic.
--
-- A step without a log stands in the place of its call in straight.lua; see inline.go. So its last line returns,
-- and no other one, and it makes no function. It calls functions of one line anywhere, and others only in a line of its own,
-- `local results = name(arguments)`, with results that have no name twice.
--
-- An assignment to several names must not read a name that it assigns: miniredis's Lua reads the new value. Assign one after
-- the other, or to new locals. Two forms are right everywhere: `a, b = name(a, b)`, and `a, b = a + 1, b + 1`, in which each
-- name is read for its own new value alone.

local NEVER = -1 -- the wait that does not end

local incomplete = false -- a step sets it where its state has lost charges that still count

local shed_key -- the set of a log that may be given up where Redis is out of memory: its side is not enforced

local function whole(x) return string.format('%.0f', x) end

local function floor_div(a, b) return (a - a % b) / b end

local function ceil_div(a, b) return (a - a % b) / b + (a % b > 0 and 1 or 0) end

-- ahead reports whether a state lies further ahead of an instant than the window: the clock
-- was set back. The step then moves the state to the instant, with what was spent.
local function ahead(last, used, at, window) return last > at and used > 0 and last - at > window + 0 end

-- now_of returns the instant at which a state is judged: never before its last.
local function now_of(last, used, at) return last > at and used > 0 and last or at end
