-- sliding_window_counter weights the count of the previous aligned window by the
-- share of it that a window ending now still covers, on whole numbers of ticks:
-- prev*(W-e) + (curr+c)*W <= L*W. State: last is the last admitted instant, used
-- the count of its window, aux the count of the window before.

local function counter_at(s, l, now)
  local c = {requests = l[1], window = l[2], tick = l[3], prev = 0, curr = 0}
  local t = floor_div(now, c.tick)
  c.elapsed = t % c.window
  c.start = t - c.elapsed
  local last = floor_div(s.last, c.tick)
  if last >= c.start then
    c.prev, c.curr = s.aux, s.used
  elseif last >= c.start - c.window then
    c.prev = s.used
  end
  return c
end

-- free_of returns the largest cost admitted now. Where a larger limit before
-- makes the product round, the rounded one is as much too large.
local function free_of(c)
  return math.max(0, c.requests - c.curr - ceil_div(c.prev * (c.window - c.elapsed), c.window))
end

-- admits_at returns the first tick that admits a cost denied now.
local function admits_at(c, cost)
  local spare = c.requests - c.curr - cost
  if spare >= 0 and c.prev > 0 then
    local e = c.window - floor_div(spare * c.window, c.prev)
    if e < c.window then return c.start + e end
  end
  local next_start = c.start + c.window
  if c.curr == 0 then return next_start end
  return next_start + math.max(0, c.window - floor_div((c.requests - cost) * c.window, c.curr))
end

-- unused_at returns the first tick at which nothing counts any more.
local function unused_at(c)
  if c.curr > 0 then return c.start + 2 * c.window end
  return c.start + c.window
end

local function sliding_window_counter(s, l, cost, at)
  local now = now_of(s, at)
  local c = counter_at(s, l, now)
  local d = {allowed = admits(cost, free_of(c)), retry = 0, reset = 0, delay = 0}
  if d.allowed and cost > 0 then
    c.curr = c.curr + cost
    s = {last = now, used = c.curr, aux = c.prev, seq = 0}
  elseif not d.allowed then
    d.retry = cost > c.requests and NEVER or admits_at(c, cost) * c.tick - at
  end
  d.remaining = free_of(c)
  if c.curr > 0 or c.prev > 0 then d.reset = unused_at(c) * c.tick - at end
  return s, d
end
