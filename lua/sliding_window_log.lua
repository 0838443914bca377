-- sliding_window_log keeps a sorted set of its admitted charges beside the record:
-- score the instant, member instant:seq:cost. State: last is the newest entry's
-- instant, used the cost of the entries that are kept, aux their number, seq the newest
-- one's. A set without a state is left over and does not count.
--
-- seq counts two for each unit of cost, in 16 digits. So the entries of one instant
-- stay in order, and between two entries lies half the difference of their seqs: no
-- visit has to read all of them. Where the seqs have begun again the sum does not fit, and
-- entries are added up.

local BATCH, BATCH_TEXT = 32, '32' -- most entries that one visit reads in a row or removes; a text is cheaper to send

local function entry_of(member)
  local at, seq, cost = string.match(member, '^(%-?%d+):(%d+):(%d+)$')
  return tonumber(at), tonumber(seq), tonumber(cost)
end

-- reader_of returns functions that read a set's entries by their rank. Few charges need
-- them, and making them would cost the others more than the arithmetic.
local function reader_of(key)
  local reader = {}

  function reader.entry_at(rank) return entry_of(redis.call('ZRANGE', key, rank, rank)[1]) end

  -- first_rank returns the least rank from low to high - 1 whose entry passes the test,
  -- or high. All entries after one that passes must pass, too.
  function reader.first_rank(low, high, test)
    while low < high do
      local middle = floor_div(low + high, 2)
      if test(reader.entry_at(middle)) then high = middle else low = middle + 1 end
    end
    return low
  end

  -- cost_of adds up the entries of the ranks from low to high - 1. It reads all of
  -- them: it is for entries whose seqs do not tell.
  function reader.cost_of(low, high)
    local sum = 0
    for rank = low, high - 1, 64 do
      for _, member in ipairs(redis.call('ZRANGE', key, rank, math.min(rank + 64, high) - 1)) do
        local _, _, cost = entry_of(member)
        sum = sum + cost
      end
    end
    return sum
  end

  -- tells reports whether the seqs of all entries after one tell their cost, if they and
  -- that one cost used. No entry counts more than two for each unit, so the sum fits only
  -- if none counts less.
  function reader.tells(used, seq, entry_seq, entry_cost)
    return seq - entry_seq == 2 * (used - entry_cost)
  end

  -- freed_at returns the instant of the entry with which, oldest first from a rank on, at
  -- least need of used units have left.
  function reader.freed_at(low, high, used, seq, need)
    local at, first_seq, first_cost = reader.entry_at(low)
    if first_cost >= need then return at end
    if reader.tells(used, seq, first_seq, first_cost) then
      local enough = first_seq + 2 * (need - first_cost)
      return (reader.entry_at(reader.first_rank(low + 1, high - 1, function(_, s) return s >= enough end)))
    end
    for rank = low, high - 1, 64 do
      for _, member in ipairs(redis.call('ZRANGE', key, rank, rank + 63)) do
        local cost
        at, _, cost = entry_of(member)
        need = need - cost
        if need <= 0 then return at end
      end
    end
    return at
  end

  return reader
end

-- kept_of returns how many entries in front an admitted charge has left to be removed by
-- later ones, and the cost of the others. A set that has lost entries, or holds one whose
-- record was not written, counts as it is.
local function kept_of(key, held, used, aux, seq)
  if held == aux then return 0, used end
  if held > aux then
    local _, newest = reader_of(key).entry_at(held - 1)
    if newest == seq then return held - aux, used end
  end
  incomplete = true
  return 0, reader_of(key).cost_of(0, held)
end

-- live_of returns the rank of the first entry after a cutoff and the cost from it on, of
-- entries that are kept from a rank on and cost used. The batch is the first that have
-- left.
local function live_of(key, cutoff, batch, kept, held, used, seq)
  if #batch < BATCH then
    for i = kept + 1, #batch do
      local _, _, cost = entry_of(batch[i])
      used = used - cost
    end
    return math.max(kept, #batch), used
  end
  local reader = reader_of(key)
  local first = reader.first_rank(math.max(kept, BATCH), held, function(at) return at > cutoff end)
  if first == kept then return first, used end
  if first == held then return first, 0 end
  local _, kept_seq, kept_cost = reader.entry_at(kept)
  if reader.tells(used, seq, kept_seq, kept_cost) then
    local _, first_seq, first_cost = reader.entry_at(first)
    return first, first_cost + (seq - first_seq) / 2
  end
  return first, used - reader.cost_of(kept, first)
end

-- next_seq returns the seq of an entry. Numbers end at 2^53: where they do, the seqs begin
-- again, at another parity than before, so that no two entries of one instant are equal.
local function next_seq(seq, cost)
  local after = seq + 2 * cost
  if after >= 9007199254740992 then return 1 + seq % 2 end
  return after
end

local function member_of(now, seq, cost)
  return string.format('%.0f:%016.0f:%.0f', now, seq, cost)
end

-- drop removes a set in one step, however long it is.
local function drop(key) redis.call('UNLINK', key) end

-- replace puts one entry in the place of all others. ZADD comes first, as in add.
local function replace(key, now, seq, cost)
  local member = member_of(now, seq, cost)
  redis.call('ZADD', key, now, member)
  drop(key)
  redis.call('ZADD', key, now, member)
end

-- add stores an entry and removes what it can of those that do not count. ZADD comes
-- before anything is removed: Redis refuses it where it is out of memory, but no write at
-- all after a first one that it let pass.
local function add(key, now, seq, cost, batch)
  redis.call('ZADD', key, now, member_of(now, seq, cost))
  if #batch > 0 then redis.call('ZREM', key, unpack(batch)) end
end

local function sliding_window_log(last, used, aux, seq, requests, window, max_entries, cost, at, key)
  local now = now_of(last, used, at)
  local held, batch, left_over = redis.call('ZCARD', key), {}, false
  local first, back = held, ahead(last, used, at, window)
  if used == 0 then
    -- A log that was given up stays so for a window: it would fill the memory again at once. Once its side is
    -- enforced, it begins again.
    if last ~= 0 and key == shed_key and math.abs(at - last) < window then error({err = 'LOGSHED'}) end
    left_over = held > 0
  else
    batch = redis.call('ZRANGEBYSCORE', key, '-inf', now - window, 'LIMIT', '0', BATCH_TEXT)
    first, used = kept_of(key, held, used, aux, seq)
    first, used = live_of(key, now - window, batch, first, held, used, seq)
    incomplete = incomplete and last > now - window -- else the set has expired, and nothing is missed
  end
  local live = held - first
  -- What counts becomes one entry: to move each of them would take too long.
  if back then
    now, last = at, at
    if used > 0 then
      seq = next_seq(seq, used)
      replace(key, at, seq, used)
      held, first, live, batch = 1, 0, 1, {}
    end
  end
  local allowed, retry, reset = cost == 0 or cost <= requests - used, 0, 0
  if allowed and cost > 0 then
    if live >= max_entries then error({err = 'LOGFULL'}) end
    seq = next_seq(seq, cost)
    if left_over then replace(key, now, seq, cost) else add(key, now, seq, cost, batch) end
    used, last, live = used + cost, now, live + 1
  elseif not allowed then
    retry = cost > requests and NEVER or reader_of(key).freed_at(first, held, used, seq, used - (requests - cost)) + window - at
  end
  if used > 0 then reset = last + window - at end
  return allowed, math.max(0, requests - used), retry, reset, 0, last, used, live, seq
end
