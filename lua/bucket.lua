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
local function bucket(last, used, aux, seq, burst, token, drain, cost, at, key, window)
  if ahead(last, used, at, window) then last = at end
  local now = now_of(last, used, at)
  local capacity, debt = burst * token, debt_of(last, used, aux, burst, token, drain, now)
  local delay = drained(debt, drain, now, at)
  local allowed, retry = cost == 0 or cost <= floor_div(capacity - debt, token), 0
  if allowed and cost > 0 then
    debt = debt + cost * token
    last, used, aux = now, debt, token
  elseif not allowed and cost > burst then
    retry = NEVER
  elseif not allowed then
    retry = ceil_div(debt - (burst - cost) * token, drain) + now - at
  end
  return allowed, floor_div(capacity - debt, token), retry, drained(debt, drain, now, at), delay, last, used, aux, 0
end
