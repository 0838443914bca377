-- Functions of scripts with a sliding window log, which keeps a sorted set of its admitted checks beside the record:
-- score the instant, member instant:seq:cost.
--
-- seq counts two for each unit of cost, in 16 digits. So the entries of one instant stay in order, and between two
-- entries lies half the difference of their seqs: no visit has to read all of them. Where the seqs have begun again the
-- sum does not fit, and entries are added up.

local BATCH = 32 -- most entries that one visit reads in a row or removes
local COPIED = 1000 -- most entries of a log that is copied

local function entry_of(member)
  local at, seq, cost = string.match(member, '^(%-?%d+):(%d+):(%d+)$')
  return tonumber(at), tonumber(seq), tonumber(cost)
end

local function entry_at(key, rank) return entry_of(redis.call('ZRANGE', key, rank, rank)[1]) end

-- first_rank returns the least rank from low to high - 1 whose entry passes the test, or high. All entries after one
-- that passes must pass, too.
local function first_rank(key, low, high, test)
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    if test(entry_at(key, middle)) then high = middle else low = middle + 1 end
  end
  return low
end

-- cost_of adds up the entries of the ranks from low to high - 1. It reads all of them: it is for entries whose seqs do
-- not tell.
local function cost_of(key, low, high)
  local sum = 0
  for rank = low, high - 1, 64 do
    for _, member in ipairs(redis.call('ZRANGE', key, rank, math.min(rank + 64, high) - 1)) do
      local _, _, cost = entry_of(member)
      sum = sum + cost
    end
  end
  return sum
end

-- tells reports whether the seqs of all entries after one tell their cost, if they and that one cost used. No entry
-- counts more than two for each unit, so the sum fits only if none counts less.
local function tells(used, seq, entry_seq, entry_cost) return seq - entry_seq == 2 * (used - entry_cost) end

-- freed_at returns the instant of the entry with which, oldest first from a rank on, at least need of used units have
-- left.
local function freed_at(key, low, high, used, seq, need)
  local at, first_seq, cost = entry_at(key, low)
  if cost >= need then return at end
  if tells(used, seq, first_seq, cost) then
    local enough = first_seq + 2 * (need - cost)
    return (entry_at(key, first_rank(key, low + 1, high - 1, function(_, s) return s >= enough end)))
  end
  for rank = low, high - 1, 64 do
    for _, member in ipairs(redis.call('ZRANGE', key, rank, rank + 63)) do
      at, _, cost = entry_of(member)
      need = need - cost
      if need <= 0 then return at end
    end
  end
  return at
end

-- kept_of returns how many entries in front an admitted check has left to be removed by later ones, the cost of the
-- others, and whether some are lost. A set that has lost entries, or holds one whose record was not written, counts as
-- it is.
local function kept_of(key, held, used, aux, seq)
  if held == aux then return 0, used, false end
  if held > aux then
    local _, newest = entry_at(key, held - 1)
    if newest == seq then return held - aux, used, false end
  end
  return 0, cost_of(key, 0, held), true
end

-- live_of returns the rank of the first entry after a cutoff and the cost from it on, of entries that are kept from a
-- rank on and cost used. The batch is the first that have left.
local function live_of(key, cutoff, batch, kept, held, used, seq)
  if #batch < BATCH then
    for i = kept + 1, #batch do
      local _, _, cost = entry_of(batch[i])
      used = used - cost
    end
    return math.max(kept, #batch), used
  end
  local front = first_rank(key, math.max(kept, BATCH), held, function(at) return at > cutoff end)
  if front == kept then return front, used end
  if front == held then return front, 0 end
  local _, kept_seq, kept_cost = entry_at(key, kept)
  if tells(used, seq, kept_seq, kept_cost) then
    local _, front_seq, front_cost = entry_at(key, front)
    return front, front_cost + (seq - front_seq) / 2
  end
  return front, used - cost_of(key, kept, front)
end

-- next_seq returns the seq of an entry. Numbers end at 2^53: where they do, the seqs begin again, at another parity than
-- before, so that no two entries of one instant are equal.
local function next_seq(seq, cost)
  local after = seq + 2 * cost
  if after >= MOST then return 1 + seq % 2 end
  return after
end

local function member_of(now, seq, cost) return string.format('%.0f:%016.0f:%.0f', now, seq, cost) end

-- take_over has a log begin with the last entries of another one, before its own.
local function take_over(entries, other)
  entries.anew = true
  if entries.taken == 0 then return end
  local taken, all = redis.call('ZRANGE', other, -entries.taken, -1, 'WITHSCORES'), {}
  for i = 1, #taken, 2 do all[i], all[i + 1] = taken[i + 1], taken[i] end
  for _, x in ipairs(entries.add) do all[#all + 1] = x end
  entries.add = all
end

-- store writes the changes of a log, and returns the error of a server that refuses them.
local function store(key, entries, ttl)
  if entries.anew then redis.call('UNLINK', key) end -- in one step, however long it is
  if #entries.add > 0 then
    local reply = redis.pcall('ZADD', key, unpack(entries.add))
    if type(reply) == 'table' then return reply.err end
  end
  if #entries.remove > 0 then redis.call('ZREM', key, unpack(entries.remove)) end
  redis.call('PEXPIRE', key, ttl)
end
