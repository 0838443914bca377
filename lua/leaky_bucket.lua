-- leaky_bucket holds an admitted charge until the backlog in front of it is gone.
local function leaky_bucket(last, used, aux, seq, burst, token, drain, cost, at, key, window)
  local allowed, remaining, retry, reset, found, now, debt, unit = bucket(last, used, aux, seq, burst, token, drain, cost, at, key, window)
  local delay = allowed and drained(found, drain, now_of(now, debt, at), at) or 0
  return allowed, remaining, retry, reset, delay, now, debt, unit, 0
end
