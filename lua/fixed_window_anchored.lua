-- fixed_window_anchored opens a window at the first admitted charge that finds
-- none open. State: last is the last admitted instant, used the count of its
-- window, aux the instant at which that window opened.
local function fixed_window_anchored(last, used, aux, seq, requests, window, tick, cost, at)
  local now = now_of(last, used, at)
  local start = aux
  local allowed, remaining, retry, reset
  if used == 0 or now - start >= window then start, used = now, 0 end
  used, allowed, remaining, retry, reset = count_in_window(used, requests, cost, start + window - at)
  return allowed, remaining, retry, reset, 0, now, used, start, 0
end
