-- count_in_window judges a cost in a window that holds used units and is over
-- after to_end microseconds. It returns the units held after the decision.
local function count_in_window(used, requests, cost, to_end)
  local d = {allowed = admits(cost, requests - used), retry = 0, reset = 0, delay = 0}
  if d.allowed then
    used = used + cost
  elseif cost > requests then
    d.retry = NEVER
  else
    d.retry = to_end
  end
  d.remaining = math.max(0, requests - used)
  if used > 0 then d.reset = to_end end
  return used, d
end
