-- token_bucket starts full and refills continuously: the tokens are what the
-- bucket does not owe.
local function token_bucket(...)
  local allowed, remaining, retry, reset, _, last, used, aux, seq = bucket(...)
  return allowed, remaining, retry, reset, 0, last, used, aux, seq
end
