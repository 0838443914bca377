local start, its = last - last % window, charged - charged % window
if aux < 0 then aux = 0 end
if used > 0 and its == start and now < start + 2 * window then
  used, counts = changed(used), true
elseif used > 0 and its == start - window and now < start + window then
  aux, counts = changed(aux), true
end

-- Without a count of its own the window says nothing: the one before is the last one.
if used == 0 and aux > 0 then
  used = aux
  last, aux = start - 1, 0
end
