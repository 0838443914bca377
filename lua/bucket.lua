-- The buckets keep one number: the debt, in units of which a token is `token` and
-- of which `drain` drain per microsecond; see bucket.go. State: last is the
-- instant of the debt, used the debt, aux the `token` it was counted in.

local function debt_of(last, used, aux, burst, token, drain, now)
  local debt = 0
  if used > 0 and aux >= 1 then
    debt = used
    if aux ~= token then
      local tokens = ceil_div(debt, aux)
      debt = (tokens < burst and tokens or burst) * token
    end
    if debt > burst * token then debt = burst * token end
    debt = debt - (now - last) * drain -- a product that is rounded is above every debt
    if debt < 0 then debt = 0 end
  end
  return debt
end

-- drained returns the wait from at until a debt of now is gone.
local function drained(debt, drain, now, at) return debt > 0 and ceil_div(debt, drain) + now - at or 0 end

-- bucket judges a charge. In place of a delay it returns the debt that the charge found.
local function bucket(last, used, aux, seq, burst, token, drain, cost, at, key, window)
  if ahead(last, used, at, window) then last = at end
  local now = now_of(last, used, at)
  local debt = debt_of(last, used, aux, burst, token, drain, now)
  local found, free = debt, burst * token - debt
  free = (free - free % token) / token
  local allowed, retry, reset = cost == 0 or cost <= free, 0, 0
  if allowed and cost > 0 then
    debt = debt + cost * token
    free = free - cost
    last = now
    used = debt
    aux = token
  elseif not allowed and cost > burst then
    retry = NEVER
  elseif not allowed then
    retry = ceil_div(debt - (burst - cost) * token, drain) + now - at
  end
  if debt > 0 then
    local rest = debt % drain
    reset = (debt - rest) / drain + now - at
    if rest > 0 then reset = reset + 1 end
  end
  return allowed, free, retry, reset, found, last, used, aux, 0
end
