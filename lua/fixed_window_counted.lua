-- fixed_window_counted is fixed_window with denied charges counted.
local function fixed_window_counted(last, used, aux, seq, requests, window, tick, cost, at)
  if ahead(last, used, at, window) then last = at end
  local now = now_of(last, used, at)
  local start = now - now % window
  if last < start then used = 0 end
  local count, allowed, remaining, retry, reset = count_in_window(used, requests, cost, start + window - at)
  if not allowed then count, remaining, reset = count_denied(count, cost), 0, start + window - at end
  return allowed, remaining, retry, reset, 0, now, count, 0, 0
end
