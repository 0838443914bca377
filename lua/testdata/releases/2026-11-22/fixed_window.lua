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
  return used, allowed, math.max(0, requests - used), retry, reset
end
-- fixed_window counts in windows aligned to the Unix epoch, [kW, (k+1)W).
-- State: last is the last admitted instant, used the count of its window.
local function fixed_window(last, used, aux, seq, requests, window, tick, cost, at)
  local now = now_of(last, used, at)
  local start = now - now % window
  local allowed, remaining, retry, reset
  if last < start then used = 0 end
  used, allowed, remaining, retry, reset = count_in_window(used, requests, cost, start + window - at)
  return allowed, remaining, retry, reset, 0, now, used, 0, 0
end
