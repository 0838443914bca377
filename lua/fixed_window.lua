-- fixed_window counts in windows aligned to the Unix epoch, [kW, (k+1)W).
-- State: last is the last admitted instant, used the count of its window.
local function fixed_window(s, l, cost, at)
  local requests, window = l[1], l[2]
  local now = now_of(s, at)
  local start = now - now % window
  local used, d = s.used, nil
  if s.last < start then used = 0 end
  used, d = count_in_window(used, requests, cost, start + window - at)
  if d.allowed and cost > 0 then s = {last = now, used = used, aux = 0, seq = 0} end
  return s, d
end
