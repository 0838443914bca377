-- fixed_window_anchored opens a window at the first admitted charge that finds
-- none open. State: last is the last admitted instant, used the count of its
-- window, aux the instant at which that window opened.
local function fixed_window_anchored(last, used, aux, seq, requests, window, tick, cost, at)
  if ahead(last, used, at, window) then
    aux = aux - (last - at)
    last = at
  end
  local now = now_of(last, used, at)
  local start, before = aux, used
  if used == 0 or now - start >= window then start, before = now, 0 end
  local count, allowed, remaining, retry, reset = count_in_window(before, requests, cost, start + window - at)
  if allowed and cost > 0 then last, used, aux = now, count, start end
  return allowed, remaining, retry, reset, 0, last, used, aux, 0
end
