-- count_in_window judges a cost in a window that holds used units and is over
-- after to_end microseconds. A cost of 0 is a peek and always allowed.
local function count_in_window(used, requests, cost, to_end)
  local allowed, retry, reset = cost == 0 or cost <= requests - used, 0, 0
  if allowed then
    used = used + cost
  elseif cost > requests then
    retry = NEVER
  else
    retry = to_end
  end
  if used > 0 then reset = to_end end
  local remaining = requests - used
  if remaining < 0 then remaining = 0 end
  return used, allowed, remaining, retry, reset
end
