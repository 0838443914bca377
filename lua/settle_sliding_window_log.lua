-- The entry is found by its instant and its cost: which of two that are alike is changed makes no difference. The seqs of the entries
-- behind it, or of those in front, move by the difference, so that they tell the cost as before.
local held, rank, its = redis.call('ZCARD', set), nil, nil
if used > 0 and charged > now - window then
  for from = 0, held, 64 do
    local members = redis.call('ZRANGEBYSCORE', set, charged, charged, 'LIMIT', from, 64)
    for _, member in ipairs(members) do
      local _, s, c = entry_of(member)
      if c == cost then its = s end
    end
    if its or #members < 64 then break end
  end
end

local kept, count
if its then
  kept, count = kept_of(set, held, used, aux, seq)
  rank = first_rank(set, kept, held, function(t, s) return t > charged or t == charged and s >= its end)
  if rank < held then
    local t, s, c = entry_at(set, rank)
    counts = t == charged and s == its and c == cost
  end
end
if counts then
  local cost_now = math.min(final, MOST - 1 - (count - cost))
  local by = 2 * (cost_now - cost)
  local _, newest = entry_at(set, held - 1)
  local low, high, own = rank + 1, held - 1, by
  local fits = newest >= its and newest + by < MOST and its + by >= 0
  if rank == kept then
    low, high, own, by = 1, 0, 0, 0 -- nothing is in front that adds it up
  elseif not fits or rank - kept < held - 1 - rank then
    local _, front = entry_at(set, kept)
    local _, before = entry_at(set, rank - 1)
    if front - by >= 0 and before - by < MOST and front <= before and before < its then
      low, high, own, by = kept, rank - 1, 0, -by
    elseif not fits then
      low, high, own, by = 1, 0, 0, 0 -- seqs that have begun again, or count too few units, tell nothing
    end
  end

  entries = {add = {}, remove = {member_of(charged, its, cost)}}
  local function add(t, s, c)
    entries.add[#entries.add + 1] = t
    entries.add[#entries.add + 1] = member_of(t, s, c)
  end
  if cost_now > 0 then add(charged, its + own, cost_now) end
  for from = low, high, 64 do
    for _, member in ipairs(redis.call('ZRANGE', set, from, math.min(from + 63, high))) do
      local t, s, c = entry_of(member)
      entries.remove[#entries.remove + 1] = member
      add(t, s + by, c)
    end
  end

  used, aux = count + cost_now - cost, held - kept
  if cost_now == 0 then aux = aux - 1 end
  if aux > 0 then
    if cost_now == 0 and rank == held - 1 then
      last, seq = entry_at(set, held - 2)
      if high == held - 2 then seq = seq + by end
    elseif high == held - 1 then
      last, seq = entry_at(set, held - 1)
      seq = seq + by
    else
      last, seq = entry_at(set, held - 1)
      if rank == held - 1 then seq = its + own end
    end
  end
end
