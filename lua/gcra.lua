-- gcra: the theoretical arrival time is the instant at which the debt is gone,
-- and a cell conforms if that is at most burst*T ahead.
local function gcra(...)
  local allowed, remaining, retry, reset, _, last, used, aux, seq = bucket(...)
  return allowed, remaining, retry, reset, 0, last, used, aux, seq
end
