-- sliding_window_counter weights the count of the previous aligned window by the
-- share of it that a window ending now still covers, on whole numbers of ticks:
-- prev*(W-e) + (curr+c)*W <= L*W. State: last is the last admitted instant, used
-- the count of its window, aux the count of the window before.

-- free_of returns the largest cost admitted now. Where a larger limit before
-- makes the product round, the rounded one is as much too large.
local function free_of(requests, window, elapsed, prev, curr)
  return math.max(0, requests - curr - ceil_div(prev * (window - elapsed), window))
end

-- admits_at returns the first tick that admits a cost denied now.
local function admits_at(requests, window, start, prev, curr, cost)
  local next_start, spare = start + window, requests - curr - cost
  if spare >= 0 then -- then it is prev that denies, and not 0
    return next_start - floor_div(spare * window, prev)
  end
  return next_start + window - floor_div((requests - cost) * window, curr)
end

local function sliding_window_counter(last, used, aux, seq, requests, window, tick, cost, at, key, span)
  -- What the window before counts becomes part of this one's count: just as much stays free.
  if ahead(last, used, at, span) then
    local held = requests - free_of(requests, window, floor_div(last, tick) % window, aux, used)
    last, used, aux = at, math.max(used, held), 0
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
  local allowed, retry, reset = cost == 0 or cost <= free_of(requests, window, elapsed, prev, curr), 0, 0
  if allowed then
    curr = curr + cost
  elseif cost > requests then
    retry = NEVER
  else
    retry = admits_at(requests, window, start, prev, curr, cost) * tick - at
  end
  if curr > 0 then
    reset = (start + 2 * window) * tick - at
  elseif prev > 0 then
    reset = (start + window) * tick - at
  end
  return allowed, free_of(requests, window, elapsed, prev, curr), retry, reset, 0, now, curr, prev, 0
end
