-- fixed_window_phased is fixed_window with windows that begin at the key's phase, or
-- at its first charge that finds none within two. aux is then where the window of last
-- began. options are the window, and the phase or 'first'; counting says whether denied charges count.
local function fixed_window_phased(last, used, aux, seq, requests, window, tick, cost, at, key, options, counting)
  local phase = string.match(options, '^%d+ (%w+)$')
  local first, origin = phase == 'first', 0
  if ahead(last, used, at, window) then
    if first then aux = aux - (last - at) end
    last = at
  end
  if first then origin = aux else origin = phase + 0 end
  local now = now_of(last, used, at)
  local start = now - (now - origin) % window
  local known = used > 0 and last >= start - window
  if first and not known then start = now end
  local count = used
  if not known or last < start then count = 0 end
  local allowed, remaining, retry, reset
  count, allowed, remaining, retry, reset = count_in_window(count, requests, cost, start + window - at)
  local stored = allowed and cost > 0
  if not allowed and counting then
    count, remaining, reset, stored = count_denied(count, cost), 0, start + window - at, true
  end
  -- The phase is kept for one window longer than the count.
  if first and count > 0 then
    reset = start + 2 * window - at
  elseif first and known then
    reset = start + window - at
  end
  if stored then
    last, used = now, count
    if first then aux = start end
  end
  return allowed, remaining, retry, reset, 0, last, used, aux, 0
end
