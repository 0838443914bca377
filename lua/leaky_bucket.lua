-- leaky_bucket holds an admitted charge until the backlog in front of it is gone.
local function leaky_bucket(...)
  local allowed, remaining, retry, reset, delay, last, used, aux, seq = bucket(...)
  if not allowed then delay = 0 end
  return allowed, remaining, retry, reset, delay, last, used, aux, seq
end
