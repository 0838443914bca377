-- sliding_window_log reads the entries of its set, and leaves to pair.lua what is to be written: nothing is, before both
-- sides are judged. State: last is the newest entry's instant, used the cost of the entries that are kept, aux their
-- number, seq the newest one's. A set without a state is left over and does not count.
local requests, length, most = first, second, third
if aux < 0 then used = 0 end -- no step makes such a state
local held, front, count, gone = redis.call('ZCARD', set), 0, used, {}
entries = {add = {}, remove = {}, anew = false, taken = not back and aux or 0}
if used > 0 then
  local cutoff, missing = (back and last or now) - length, false
  gone = redis.call('ZRANGEBYSCORE', set, '-inf', cutoff, 'LIMIT', 0, BATCH)
  front, count, missing = kept_of(set, held, used, aux, seq)
  front, count = live_of(set, cutoff, gone, front, held, count, seq)
  lost = missing and last > cutoff -- else the set has expired, and nothing is missed
else
  -- A log that was given up stays so for a window: it would fill the memory again at once.
  if last ~= 0 and own == spare and math.abs(at - last) < length then error({err = 'LOGSHED'}) end
  lost = last ~= 0
  front, entries.anew = held, held > 0
end

local live = held - front
-- What counts becomes one entry: to move each of them would take too long.
if back then
  last, used, aux = 0, count, 0
  if count > 0 then
    seq = next_seq(seq, count)
    last, aux, live = at, 1, 1
    entries.anew, entries.add, gone = true, {at, member_of(at, seq, count)}, {}
  end
end

if cost == 0 or cost <= requests - count then
  allowed = true
  if cost > 0 then
    if live >= most then error({err = 'LOGFULL'}) end
    count = count + cost
    seq = next_seq(seq, cost)
    entries.add[#entries.add + 1] = now
    entries.add[#entries.add + 1] = member_of(now, seq, cost)
    entries.remove = gone
    last, used, aux = now, count, live + 1
  end
elseif cost > requests then
  retry = NEVER
elseif back then
  retry = length
else
  retry = freed_at(set, front, held, count, seq, count - (requests - cost)) + length - at
end
if count < requests then remaining = requests - count end
if count > 0 then reset = last + length - at end
