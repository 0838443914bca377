counts = true
local more = final - cost
if more > 0 then
  debt = math.min(debt + more * token, 100 * capacity, MOST - drain, 1125899906842624 * drain)
else
  -- What has drained since is not given back again, and a limit that was lowered has forgiven what was above its capacity.
  more = math.min(0, math.max(0, now - charged) * drain - math.min(-more, burst) * token)
  debt = math.max(0, debt + more)
end
if more ~= 0 then
  last, used, aux = now, debt, token
  if debt > capacity then aux = -token end
  reset = (debt + -debt % drain) / drain + now - at
end
