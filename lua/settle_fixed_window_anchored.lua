if used > 0 and aux == opened and now - aux < window then
  used, counts = changed(used), true
end
