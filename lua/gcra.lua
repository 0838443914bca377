-- gcra: the theoretical arrival time is the instant at which the debt is gone,
-- and a cell conforms if that is at most burst*T ahead.
local function gcra(s, l, cost, at)
  local d
  s, d = bucket(s, l, cost, at)
  return s, d
end
