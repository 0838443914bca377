-- gcra: the theoretical arrival time is the instant at which the debt is gone,
-- and a cell conforms if that is at most burst*T ahead.
local function gcra(last, used, aux, seq, burst, token, drain, cost, at, key, window)
  local allowed, remaining, retry, reset, _, now, debt, unit = bucket(last, used, aux, seq, burst, token, drain, cost, at, key, window)
  return allowed, remaining, retry, reset, 0, now, debt, unit, 0
end
