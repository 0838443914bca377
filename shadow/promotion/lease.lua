-- Takes, extends or gives back a lease.
--
-- KEYS  1 the lease
-- ARGV  1 holder   2 how long it lasts, ms; 0 gives it back
-- reply 1 if the holder has the lease now, else 0

-- A key of another type is garbage, and would keep every instance from the lease for ever.
local kind = redis.call('TYPE', KEYS[1]).ok
local held = kind == 'string' and redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return 0 end

if ARGV[2] == '0' or kind ~= 'string' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end
if ARGV[2] == '0' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
