-- fixed_window_phased_counted is fixed_window_phased with denied charges counted.
local function fixed_window_phased_counted(last, used, aux, seq, requests, window, tick, cost, at, key, options)
  return fixed_window_phased(last, used, aux, seq, requests, window, tick, cost, at, key, options, true)
end
