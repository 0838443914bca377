-- The step of token_bucket, gcra and leaky_bucket behind debt.lua.
local found, free = debt, capacity - debt
if free < 0 then free = 0 end
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
