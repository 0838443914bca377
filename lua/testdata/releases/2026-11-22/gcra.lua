-- The buckets keep one number: the debt, in units of which a token is `token` and
-- of which `drain` drain per microsecond; see bucket.go. State: last is the
-- instant of the debt, used the debt, aux the `token` it was counted in.

local function debt_of(last, used, aux, burst, token, drain, now)
  if used == 0 or aux < 1 then return 0 end
  local debt = used
  if aux ~= token then debt = math.min(ceil_div(debt, aux), burst) * token end
  debt = math.min(debt, burst * token)
  local elapsed = now - last
  if elapsed >= ceil_div(debt, drain) then return 0 end
  return debt - elapsed * drain
end

-- drained returns the wait from at until a debt of now is gone.
local function drained(debt, drain, now, at)
  if debt == 0 then return 0 end
  return ceil_div(debt, drain) + now - at
end

-- bucket judges a charge. Its delay is the wait for what the charge found owing.
local function bucket(last, used, aux, seq, burst, token, drain, cost, at)
  local now = now_of(last, used, at)
  local capacity, debt = burst * token, debt_of(last, used, aux, burst, token, drain, now)
  local delay = drained(debt, drain, now, at)
  local allowed, retry = cost == 0 or cost <= floor_div(capacity - debt, token), 0
  if allowed then
    debt = debt + cost * token
  elseif cost > burst then
    retry = NEVER
  else
    retry = ceil_div(debt - (burst - cost) * token, drain) + now - at
  end
  return allowed, floor_div(capacity - debt, token), retry, drained(debt, drain, now, at), delay, now, debt, token, 0
end
-- gcra: the theoretical arrival time is the instant at which the debt is gone,
-- and a cell conforms if that is at most burst*T ahead.
local function gcra(...)
  local allowed, remaining, retry, reset, _, last, used, aux, seq = bucket(...)
  return allowed, remaining, retry, reset, 0, last, used, aux, seq
end
