-- leaky_bucket holds an admitted charge until the backlog in front of it is gone.
local function leaky_bucket(s, l, cost, at)
  local d, backlog
  s, d, backlog = bucket(s, l, cost, at)
  if d.allowed then d.delay = backlog end
  return s, d
end
