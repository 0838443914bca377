-- token_bucket starts full and refills continuously: the tokens are what the
-- bucket does not owe.
local function token_bucket(last, used, aux, seq, burst, token, drain, cost, at, key, window)
  local allowed, remaining, retry, reset, _, now, debt, unit = bucket(last, used, aux, seq, burst, token, drain, cost, at, key, window)
  return allowed, remaining, retry, reset, 0, now, debt, unit, 0
end
