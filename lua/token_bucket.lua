-- token_bucket starts full and refills continuously: the tokens are what the
-- bucket does not owe.
local function token_bucket(s, l, cost, at)
  local d
  s, d = bucket(s, l, cost, at)
  return s, d
end
