-- sliding_window_counter_counted is sliding_window_counter with denied charges counted.
local function sliding_window_counter_counted(last, used, aux, seq, requests, window, tick, cost, at, key, span)
  if ahead(last, used, at, span) then
    local free = free_of(requests, window, floor_div(last, tick) % window, aux, used)
    if requests - free > used then used = requests - free end
    last, aux = at, 0
  end
  local now = now_of(last, used, at)
  local t = floor_div(now, tick)
  local elapsed = t % window
  local start, prev, curr = t - elapsed, 0, 0
  local last_tick = floor_div(last, tick)
  if last_tick >= start then
    prev, curr = aux, used
  elseif last_tick >= start - window then
    prev = used
  end
  local spare = free_of(requests, window, elapsed, prev, curr)
  local allowed, retry, reset = cost == 0 or cost <= spare, 0, 0
  -- A denied cost is in the way of the next one, too, so the wait is that of the state after it.
  curr = count_denied(curr, cost)
  if not allowed and cost > requests then
    retry = NEVER
  elseif not allowed then
    local admits = admits_at(requests, window, start, prev, curr, cost)
    retry = admits * tick - at
  end
  if curr > 0 then
    reset = (start + 2 * window) * tick - at
  elseif prev > 0 then
    reset = (start + window) * tick - at
  end
  local remaining = free_of(requests, window, elapsed, prev, curr)
  return allowed, remaining, retry, reset, 0, now, curr, prev, 0
end
