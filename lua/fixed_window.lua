-- fixed_window counts in windows aligned to the Unix epoch, [kW, (k+1)W).
-- State: last is the last admitted instant, used the count of its window.
local function fixed_window(last, used, aux, seq, requests, window, tick, cost, at)
  if ahead(last, used, at, window) then last = at end
  local now = now_of(last, used, at)
  local start = now - now % window
  if last < start then used = 0 end
  local count, allowed, remaining, retry, reset = count_in_window(used, requests, cost, start + window - at)
  return allowed, remaining, retry, reset, 0, now, count, 0, 0
end
