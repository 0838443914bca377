-- fixed_window_calendar_counted is fixed_window_calendar with denied charges counted.
local function fixed_window_calendar_counted(last, used, aux, seq, requests, window, tick, cost, at, key, options)
  return fixed_window_calendar(last, used, aux, seq, requests, window, tick, cost, at, key, options, true)
end
