-- count_denied returns a count and a cost together, or 2^53 - 1: no limit's decision
-- depends on a larger count.
local function count_denied(used, cost) return used + (cost < 9007199254740991 - used and cost or 9007199254740991 - used) end
