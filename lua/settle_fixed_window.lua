local start = last - last % window
if used > 0 and charged - charged % window == start and now < start + window then
  used, counts = changed(used), true
end
