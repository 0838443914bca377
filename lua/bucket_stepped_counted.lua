-- The steps of buckets that forget: a denied charge is one.
local function stepped_bucket_counted(last, used, aux, seq, burst, token, drain, cost, at, key, options)
  return stepped_bucket(last, used, aux, seq, burst, token, drain, cost, at, key, options, true)
end
local function stepped_queue_counted(last, used, aux, seq, burst, token, drain, cost, at, key, options)
  return stepped_queue(last, used, aux, seq, burst, token, drain, cost, at, key, options, true)
end
