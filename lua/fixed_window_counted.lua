-- fixed_window_counted is fixed_window with denied charges counted.
local function fixed_window_counted(last, used, aux, seq, requests, window, tick, cost, at)
  if ahead(last, used, at, window) then last = at end
  local now = now_of(last, used, at)
  local start = now - now % window
  local allowed, remaining, retry, reset
  if last < start then used = 0 end
  used, allowed, remaining, retry, reset = count_in_window(used, requests, cost, start + window - at)
  if not allowed then used, remaining, reset = count_denied(used, cost), 0, start + window - at end
  return allowed, remaining, retry, reset, 0, now, used, 0, 0
end
