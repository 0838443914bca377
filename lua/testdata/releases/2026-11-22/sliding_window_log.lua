-- sliding_window_log keeps a sorted set of its admitted charges beside the
-- record: score the instant, member instant:seq:cost, seq to keep members apart.
-- State: last is the newest entry's instant, used the cost of all entries, aux
-- their number, seq the last one given. A set whose size is not aux has lost entries,
-- or holds one whose record was not written: then the entries in the set count. A set
-- without a state is left over and does not count.

local function entry_of(member)
  local at, cost = string.match(member, '^(%-?%d+):%d+:(%d+)$')
  return tonumber(at), tonumber(cost)
end

local function cost_of(members)
  local sum = 0
  for _, member in ipairs(members) do
    local _, cost = entry_of(member)
    sum = sum + cost
  end
  return sum
end

-- freed_at returns the instant of the entry with which, oldest first from an
-- index on, at least need units have left.
local function freed_at(key, index, need)
  local at, cost
  while true do
    local members = redis.call('ZRANGE', key, whole(index), whole(index + 63))
    for _, member in ipairs(members) do
      at, cost = entry_of(member)
      need = need - cost
      if need <= 0 then return at end
    end
    if #members == 0 then return at end
    index = index + 64
  end
end

-- keep_only removes all members but one with its score.
local function keep_only(key, score, member)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. whole(score))
  redis.call('ZREMRANGEBYSCORE', key, '(' .. whole(score), '+inf')
  for _, m in ipairs(redis.call('ZRANGEBYSCORE', key, whole(score), whole(score))) do
    if m ~= member then redis.call('ZREM', key, m) end
  end
end

local function sliding_window_log(last, used, aux, seq, requests, window, max_entries, cost, at, key)
  local now = now_of(last, used, at)
  local held, expired, left_over = redis.call('ZCARD', key), {}, used == 0
  if left_over then
    held = 0
  else
    if held ~= aux then used = cost_of(redis.call('ZRANGE', key, '0', '-1')) end
    expired = redis.call('ZRANGEBYSCORE', key, '-inf', whole(now - window))
    used = used - cost_of(expired)
  end
  local live = held - #expired
  local allowed, retry, reset = cost == 0 or cost <= requests - used, 0, 0
  if allowed and cost > 0 then
    if live >= max_entries then error({err = 'LOGFULL'}) end
    -- ZADD comes before anything is removed: Redis refuses it where it is out of
    -- memory, but no write at all after a first one that it let pass.
    local member = whole(now) .. ':' .. whole(seq + 1) .. ':' .. whole(cost)
    redis.call('ZADD', key, whole(now), member)
    if left_over then
      keep_only(key, now, member)
    elseif #expired > 0 then
      redis.call('ZREMRANGEBYSCORE', key, '-inf', whole(now - window))
    end
    used, last = used + cost, now
  elseif not allowed then
    retry = cost > requests and NEVER or freed_at(key, #expired, used + cost - requests) + window - at
  end
  if used > 0 then reset = last + window - at end
  return allowed, math.max(0, requests - used), retry, reset, 0, now, used, live + 1, seq + 1
end
