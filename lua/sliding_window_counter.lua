-- sliding_window_counter weights the count of the previous aligned window by the share of it that a window ending now
-- still covers, on whole numbers of ticks: prev*(W-e) + (curr+c)*W <= L*W.
-- State: last is the last admitted instant, used the count of its window, aux the count of the window before.
local requests, length, tick = first, second, third
if aux < 0 then aux = 0 end -- no step makes such a state

-- What the window before counts becomes part of this one's count: just as much stays free.
if back then
  local share = aux * (length - (last - last % tick) / tick % length)
  share = (share + -share % length) / length
  if used < requests then
    used = used + share
    if used > requests then used = requests end
  end
  last, aux = at, 0
end

local instant, latest = (now - now % tick) / tick, (last - last % tick) / tick
local elapsed = instant % length
local start, prev, curr = instant - elapsed, 0, 0
if latest >= start then
  prev, curr = aux, used
elseif latest >= start - length then
  prev = used
end

-- Where a limit that was larger makes the product round, the rounded one is as much too large.
local share = prev * (length - elapsed)
local free = requests - curr - (share + -share % length) / length
if free < 0 then free = 0 end
if cost <= free then
  allowed = true
  if cost > 0 then
    curr = curr + cost
    free = free - cost
    last, used, aux = now, curr, prev
  end
elseif cost > requests then
  retry = NEVER
else
  local spare = requests - curr - cost
  if spare >= 0 then -- then it is prev that denies, and not 0
    local ticks = spare * length
    retry = (start + length - (ticks - ticks % prev) / prev) * tick - at
  else
    local ticks = (requests - cost) * length
    retry = (start + 2 * length - (ticks - ticks % curr) / curr) * tick - at
  end
end
remaining = free
if curr > 0 then
  reset = (start + 2 * length) * tick - at
elseif prev > 0 then
  reset = (start + length) * tick - at
end
