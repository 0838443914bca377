-- sliding_window_counter weights the count of the previous aligned window by the
-- share of it that a window ending now still covers, on whole numbers of ticks:
-- prev*(W-e) + (curr+c)*W <= L*W. State: last is the last admitted instant, used
-- the count of its window, aux the count of the window before.

-- free_of returns the largest cost admitted now. Where a larger limit before
-- makes the product round, the rounded one is as much too large.
local function free_of(requests, window, elapsed, prev, curr)
  local free = requests - curr - ceil_div(prev * (window - elapsed), window)
  if free < 0 then free = 0 end
  return free
end

-- admits_at returns the first tick that admits a cost denied now.
local function admits_at(requests, window, start, prev, curr, cost)
  local next_start, spare = start + window, requests - curr - cost
  local admits
  if spare >= 0 then -- then it is prev that denies, and not 0
    admits = next_start - floor_div(spare * window, prev)
  else
    admits = next_start + window - floor_div((requests - cost) * window, curr)
  end
  return admits
end

local function sliding_window_counter(last, used, aux, seq, requests, window, tick, cost, at, key, span)
  -- What the window before counts becomes part of this one's count: just as much stays free.
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
  if allowed then
    curr = curr + cost
  elseif cost > requests then
    retry = NEVER
  else
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
