-- token_bucket, gcra and leaky_bucket keep one number: the debt, in units of which a token is `token` and of which
-- `drain` drain per microsecond; see bucket.go. It goes on in bucket.lua. State: last is the instant of the debt, used the debt, aux the
-- `token` that it was counted in, below 0 where a surcharge has lifted the debt above the capacity.
local burst, token, drain = first, second, third
if back then last = at end

local capacity, debt = burst * token, 0
if used > 0 and aux ~= 0 then
  local most = capacity
  debt = used
  if aux ~= token then
    local unit, tokens = aux, burst
    if unit < 0 then
      unit, most = -aux, math.min(100 * capacity, MOST - drain, 1125899906842624 * drain)
      tokens = (most - most % token) / token
    end
    if unit ~= token then -- another unit: whole tokens, rounded up
      local owed = (debt + -debt % unit) / unit
      if owed > tokens then owed = tokens end
      debt = owed * token
    end
  end
  if debt > most then debt = most end
  debt = debt - (now - last) * drain -- a product that is rounded is above every debt
  if debt < 0 then debt = 0 end
end
