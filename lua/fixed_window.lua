-- fixed_window counts in windows aligned to the Unix epoch, [kW, (k+1)W). It goes on in window.lua.
-- State: last is the last admitted instant, used the count of its window.
local requests, length = first, second
if back then last = at end
local start, count = now - now % length, used
if last < start then count = 0 end
