-- fixed_window_anchored opens a window at the first admitted check that finds none open. It goes on in window.lua.
-- State: last is the last admitted instant, used the count of its window, aux the instant at which that opened.
local requests, length = first, second
if back then -- the window is as old as it was
  aux = aux - (last - at)
  last = at
end
local start, count = aux, used
if used == 0 or start > now or now - start >= length then start, count = now, 0 end
