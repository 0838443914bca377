-- sliding_window_counter_phased is sliding_window_counter with windows that begin at
-- the key's phase, or at its first charge that finds none within two. Then aux is where the
-- window of last began, and seq the count of the window before. options are the
-- window, and the phase or 'first'; counting says whether denied charges count.

-- phased_at returns the start of a tick's window, in ticks, and the counts of the one before and of this one.
local function phased_at(last, used, aux, seq, window, tick, t, phase)
  local first, origin, before = phase == 'first', 0, aux
  if first then origin, before = aux, seq else origin = phase + 0 end
  local start, prev, curr = t - (t - floor_div(origin, tick)) % window, 0, 0
  local last_tick = floor_div(last, tick)
  if last_tick >= start then
    prev, curr = before, used
  elseif last_tick >= start - window then
    prev = used
  end
  if first and prev == 0 and curr == 0 then start = t end
  return start, prev, curr
end

local function sliding_window_counter_phased(last, used, aux, seq, requests, window, tick, cost, at, key, options, counting)
  local span, phase = string.match(options, '^(%d+) (%w+)$')
  local first = phase == 'first'
  if ahead(last, used, at, span) then
    local then_tick = floor_div(last, tick)
    local start, prev, curr = phased_at(last, used, aux, seq, window, tick, then_tick, phase)
    if first then
      last, used, aux, seq = at, curr, (floor_div(at, tick) - (then_tick - start)) * tick, prev
    else
      local held = requests - free_of(requests, window, then_tick - start, prev, curr)
      last, used, aux = at, math.max(used, held), 0
    end
  end
  local now = now_of(last, used, at)
  local t = floor_div(now, tick)
  if used == 0 then last, aux, seq = now, 0, 0 end
  local start, prev, curr = phased_at(last, used, aux, seq, window, tick, t, phase)
  local elapsed, stored = t - start, cost > 0
  local allowed, retry, reset = cost == 0 or cost <= free_of(requests, window, elapsed, prev, curr), 0, 0
  -- A denied cost that counts is in the way of the next one, too.
  if allowed then
    curr = curr + cost
  elseif counting then
    curr = count_denied(curr, cost)
  else
    stored = false
  end
  if not allowed then
    if cost > requests then
      retry = NEVER
    else
      retry = admits_at(requests, window, start, prev, curr, cost) * tick - at
    end
  end
  if curr > 0 then
    reset = (start + 2 * window) * tick - at
  elseif prev > 0 then
    reset = (start + window) * tick - at
  end
  if stored then
    last, used = now, curr
    if first then aux, seq = start * tick, prev else aux, seq = prev, 0 end
  end
  return allowed, free_of(requests, window, elapsed, prev, curr), retry, reset, 0, last, used, aux, seq
end
