-- Stores a state, appends it to the audit trail and notifies all watchers, or does
-- nothing.
--
-- KEYS  1 the state, a hash   2 the audit trail, a stream
-- ARGV  1 version that must be stored, TERM.SEQ, or '' to ask that the new state
--         supersedes the stored one
--       2 term   3 seq   4 safety   5 the state, text   6 channel   7 message
--       8 safety that must be stored beside the version, or '' for any
-- reply 1 if stored, else 0, and the stored version

-- Redis refuses writes when it is out of memory, but a script that has made one write may
-- make more: a rollback must be stored even then. HDEL needs no memory, so it passes.
if ARGV[1] == '' then redis.pcall('HDEL', KEYS[1], '') end
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end

local stored = redis.call('HMGET', KEYS[1], 'term', 'seq', 'safety')
local term, seq, safety = stored[1] or '0', stored[2] or '0', stored[3] or '0'

local ok
if ARGV[1] ~= '' then
  ok = ARGV[1] == term .. '.' .. seq and (ARGV[8] == '' or ARGV[8] == safety)
else
  local d = tonumber(ARGV[2]) - (tonumber(term) or 0)
  if d == 0 then d = tonumber(ARGV[3]) - (tonumber(seq) or 0) end
  if d == 0 then d = tonumber(ARGV[4]) - (tonumber(safety) or 0) end
  ok = d > 0
end
if not ok then return {0, term .. '.' .. seq} end

-- The version is the entry's id: the stream refuses a state that is asserted again after a
-- failover, so no state is on record twice. A step that cannot be put on record for any
-- other reason is not taken, but a rollback is.
local added = redis.pcall('XADD', KEYS[2], ARGV[2] .. '-' .. ARGV[3], 'state', ARGV[5])
if type(added) == 'table' and added.err and ARGV[1] ~= '' and not string.find(added.err, 'equal or smaller', 1, true) then
  return redis.error_reply(added.err)
end

redis.call('HSET', KEYS[1], 'term', ARGV[2], 'seq', ARGV[3], 'safety', ARGV[4], 'state', ARGV[5])
redis.pcall('PUBLISH', ARGV[6], ARGV[7]) -- an instance that misses it polls within a second
return {1, ARGV[2] .. '.' .. ARGV[3]}
