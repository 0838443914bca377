-- stepped is bucket with options: the window, the microseconds from one step in which tokens come to the next, and those after
-- which a bucket without a charge is full, 0 for never; see bucket_stepped.go. counting says whether a denied charge is one.
local function stepped(last, used, aux, burst, token, drain, cost, at, options, counting)
  local window, refill, forget = string.match(options, '^(%d+) (%d+) (%d+)$')
  refill, forget = refill + 0, forget + 0
  if ahead(last, used, at, window) then last = at end
  local now = now_of(last, used, at)
  local before, tick = last - last % refill, now - now % refill
  local capacity, debt = burst * token, 0
  if forget == 0 or now - last < forget then debt = debt_of(before, used, aux, burst, token, drain, tick) end

  -- drained_at returns the first step at which some units have drained.
  local function drained_at(units)
    local t = tick + ceil_div(units, drain)
    return t + -t % refill
  end

  local allowed, retry, reset, delay = cost == 0 or cost <= floor_div(capacity - debt, token), 0, 0, 0
  if allowed and debt > 0 then delay = drained_at(debt) - at end
  if allowed then debt = debt + cost * token end
  local charged = last
  if cost > 0 and (allowed or counting and debt > 0) then
    charged, last, used, aux = now, now, debt, token
  end

  -- free_at is drained_at, or sooner where the bucket forgets.
  local function free_at(units)
    local t = drained_at(units)
    if forget > 0 and charged + forget < t then return charged + forget end
    return t
  end
  if not allowed then
    if cost > burst then retry = NEVER else retry = free_at(debt - (burst - cost) * token) - at end
  end
  if debt > 0 then reset = free_at(debt) - at end
  return allowed, floor_div(capacity - debt, token), retry, reset, delay, last, used, aux, 0
end

-- stepped_bucket has no delay, stepped_queue has one.
local function stepped_bucket(last, used, aux, seq, burst, token, drain, cost, at, key, options, counting)
  local allowed, remaining, retry, reset, _, next, owed, unit = stepped(last, used, aux, burst, token, drain, cost, at, options, counting)
  return allowed, remaining, retry, reset, 0, next, owed, unit, 0
end
local function stepped_queue(last, used, aux, seq, burst, token, drain, cost, at, key, options, counting)
  return stepped(last, used, aux, burst, token, drain, cost, at, options, counting)
end
