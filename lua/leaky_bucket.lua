-- leaky_bucket holds an admitted check until the backlog in front of it is gone. It goes on behind bucket.lua.
if allowed and found > 0 then delay = (found + -found % drain) / drain + now - at end
