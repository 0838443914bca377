-- sliding_window_log_counted is sliding_window_log with denied charges counted. Entries
-- before the newest that fill the limit are dropped: they leave the window first, so no
-- decision depends on them. A key has no more entries than its limit has requests.

-- filling_of returns the rank of the first of the newest entries that cost at least
-- units together, and their cost, of entries from first to held - 1 that cost used.
local function filling_of(key, first, held, used, seq, units)
  local surplus = used - units
  local reader = reader_of(key)
  for _, member in ipairs(redis.call('ZRANGE', key, first, math.min(first + BATCH, held) - 1)) do
    local _, _, cost = entry_of(member)
    if cost > surplus then return first, used end
    first, used, surplus = first + 1, used - cost, surplus - cost
  end
  if first == held then return held, 0 end

  -- Few charges drop more than a batch: a cost that is as large.
  local _, first_seq, first_cost = reader.entry_at(first)
  if reader.tells(used, seq, first_seq, first_cost) then
    local rank = reader.first_rank(first, held, function(_, s) return (seq - s) / 2 < used - surplus end)
    if rank == held then return held, 0 end
    local _, rank_seq, rank_cost = reader.entry_at(rank)
    return rank, rank_cost + (seq - rank_seq) / 2
  end
  while first < held do
    local _, _, cost = reader.entry_at(first)
    if cost > surplus then break end
    first, used, surplus = first + 1, used - cost, surplus - cost
  end
  return first, used
end

local function sliding_window_log_counted(last, used, aux, seq, requests, window, max_entries, cost, at, key)
  local allowed, remaining, retry, reset, delay
  allowed, remaining, retry, reset, delay, last, used, aux, seq =
    sliding_window_log(last, used, aux, seq, requests, window, max_entries, cost, at, key)
  if allowed then return allowed, remaining, retry, reset, 0, last, used, aux, seq end

  local now, held, counted, batch = now_of(last, used, at), redis.call('ZCARD', key), math.min(cost, requests), {}
  local first, kept = filling_of(key, held - aux, held, used, seq, requests - counted)
  local live = held - first
  if live >= max_entries then error({err = 'LOGFULL'}) end

  -- The wait is that of the state after the charge, which is its newest entry.
  local need = kept + counted + cost - requests
  if cost > requests then
    retry = NEVER
  elseif need > kept then
    retry = now + window - at
  else
    retry = reader_of(key).freed_at(first, held, kept, seq, need) + window - at
  end

  seq = next_seq(seq, counted)
  if live == 0 and held > 0 then
    replace(key, now, seq, counted)
  else
    if first > 0 then batch = redis.call('ZRANGE', key, 0, math.min(first, BATCH) - 1) end
    add(key, now, seq, counted, batch)
  end
  return false, 0, retry, now + window - at, 0, now, kept + counted, live + 1, seq
end
