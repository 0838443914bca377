-- sliding_window_counter_phased_counted is sliding_window_counter_phased with denied charges counted.
local function sliding_window_counter_phased_counted(last, used, aux, seq, requests, window, tick, cost, at, key, options)
  return sliding_window_counter_phased(last, used, aux, seq, requests, window, tick, cost, at, key, options, true)
end
