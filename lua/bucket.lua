-- The buckets keep one number: the debt, in units of which a token is b.token and
-- of which b.drain drain per microsecond; see bucket.go. State: last is the
-- instant of the debt, used the debt, aux the b.token it was counted in.

local function debt_of(s, b, now)
  if s.used == 0 or s.aux < 1 then return 0 end
  local debt = s.used
  if s.aux ~= b.token then
    debt = math.min(ceil_div(debt, s.aux), b.burst) * b.token
  end
  debt = math.min(debt, b.capacity)
  local elapsed = now - s.last
  if elapsed >= ceil_div(debt, b.drain) then return 0 end
  return debt - elapsed * b.drain
end

-- drained returns the wait from at until a debt of now is gone.
local function drained(debt, b, now, at)
  if debt == 0 then return 0 end
  return ceil_div(debt, b.drain) + now - at
end

-- bucket judges a charge. Its third result is the wait for what it found owing.
local function bucket(s, l, cost, at)
  local b = {burst = l[1], token = l[2], drain = l[3], capacity = l[1] * l[2]}
  local now = now_of(s, at)
  local debt = debt_of(s, b, now)
  local backlog = drained(debt, b, now, at)
  local d = {allowed = admits(cost, floor_div(b.capacity - debt, b.token)), retry = 0, delay = 0}
  if d.allowed and cost > 0 then
    debt = debt + cost * b.token
    s = {last = now, used = debt, aux = b.token, seq = 0}
  elseif not d.allowed then
    d.retry = cost > b.burst and NEVER or ceil_div(debt - (b.burst - cost) * b.token, b.drain) + now - at
  end
  d.remaining = floor_div(b.capacity - debt, b.token)
  d.reset = drained(debt, b, now, at)
  return s, d, backlog
end
