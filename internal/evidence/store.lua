-- Stores an hour, unless its slots are gone, so that it may lack some of them, or a later one is stored: a leader may have been
-- frozen since it read them.
--
-- KEYS  1 hour, a hash
-- ARGV  1 number of the hour's last change   2 hour   3 when its slots are gone, s   4 seconds that it lives
-- reply 1 if stored

if tonumber(redis.call('TIME')[1]) >= tonumber(ARGV[3]) then return 0 end
if (tonumber(redis.call('HGET', KEYS[1], 'change')) or 0) >= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'change', ARGV[1], 'hour', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
