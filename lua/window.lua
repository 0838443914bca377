-- Both fixed windows: a window that has begun at `start` holds `count` units.
if cost == 0 or cost <= requests - count then
  allowed = true
  if cost > 0 then
    count = count + cost
    last, used, aux = now, count, start
  end
elseif cost > requests then
  retry = NEVER
else
  retry = start + length - at
end
if count < requests then remaining = requests - count end
if count > 0 then reset = start + length - at end
