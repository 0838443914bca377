-- token_bucket, gcra and leaky_bucket keep one number: the debt, in units of which a token is `token` and of which
-- `drain` drain per microsecond; see bucket.go. State: last is the instant of the debt, used the debt, aux the
-- `token` that it was counted in.
local burst, token, drain = first, second, third
if back then last = at end

local capacity, debt = burst * token, 0
if used > 0 and aux > 0 then
  debt = used
  if aux ~= token then -- another unit: whole tokens, rounded up
    local tokens = (debt + -debt % aux) / aux
    if tokens > burst then tokens = burst end
    debt = tokens * token
  end
  if debt > capacity then debt = capacity end
  debt = debt - (now - last) * drain -- a product that is rounded is above every debt
  if debt < 0 then debt = 0 end
end

local found, free = debt, capacity - debt
free = (free - free % token) / token
if cost <= free then
  allowed = true
  if cost > 0 then
    debt = debt + cost * token
    free = free - cost
    last, used, aux = now, debt, token
  end
elseif cost > burst then
  retry = NEVER
else
  local excess = debt - (burst - cost) * token
  retry = (excess + -excess % drain) / drain + now - at
end
remaining = free
if debt > 0 then reset = (debt + -debt % drain) / drain + now - at end
