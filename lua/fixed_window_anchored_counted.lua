-- fixed_window_anchored_counted is fixed_window_anchored with denied charges counted:
-- one that finds no window open opens one.
local function fixed_window_anchored_counted(last, used, aux, seq, requests, window, tick, cost, at)
  if ahead(last, used, at, window) then
    aux = aux - (last - at)
    last = at
  end
  local now = now_of(last, used, at)
  local start, before = aux, used
  if used == 0 or now - start >= window then start, before = now, 0 end
  local count, allowed, remaining, retry, reset = count_in_window(before, requests, cost, start + window - at)
  if not allowed then count, remaining, reset = count_denied(count, cost), 0, start + window - at end
  if cost > 0 then last, used, aux = now, count, start end
  return allowed, remaining, retry, reset, 0, last, used, aux, 0
end
