-- fixed_window_anchored opens a window at the first admitted charge that finds
-- none open. State: used is the window's count, aux the instant it opened.
local function fixed_window_anchored(s, l, cost, at)
  local requests, window = l[1], l[2]
  local now = now_of(s, at)
  local start, used, d = s.aux, s.used, nil
  if used == 0 or now - start >= window then start, used = now, 0 end
  used, d = count_in_window(used, requests, cost, start + window - at)
  if d.allowed and cost > 0 then s = {last = now, used = used, aux = start, seq = 0} end
  return s, d
end
