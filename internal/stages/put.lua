-- Stores a state, appends it to the audit trail and notifies all watchers, or does
-- nothing.
--
-- KEYS  1 the states, a hash   2 the audit trail of the policy, a stream   3 the number of changes
-- ARGV  1 version that must be stored, TERM.SEQ, or '' to ask that the new state
--         supersedes the stored one
--       2 term   3 seq   4 safety   5 since   6 fingerprint   7 the state, text
--       8 safety, 9 since and 10 fingerprint that must be stored beside the version; 10 '' for any
--       11 instant of the evidence, Unix seconds, or '' for a move without evidence
--       12 greatest age of the evidence, seconds   13 entries that the trail keeps
--       14 channel   15 policy   16 a number of changes that was never used
-- reply 1 if stored, 0 if another state is, -1 if the evidence is too old, and the version

local last = 4503599627370496 -- 2^52: no greater term or sequence is believed

-- A number that is no version counts as 0, so that every state supersedes it.
local function number(text)
  local n = tonumber(text) or 0
  if n >= 0 and n <= last then return n end
  return 0
end

-- Compares bytes: Redis compares texts by the language of its process.
local function compare(a, b)
  for i = 1, math.max(#a, #b) do
    local d = (string.byte(a, i) or -1) - (string.byte(b, i) or -1)
    if d ~= 0 then return d end
  end
  return 0
end

-- Redis refuses writes when it is out of memory, but a script that has made one write may
-- make more: a rollback must be stored even then. HDEL needs no memory, so it passes.
if ARGV[1] == '' then redis.pcall('HDEL', KEYS[1], '') end

-- A key of another type is garbage. It is deleted only where something takes its place: a
-- move that is refused must not make a policy unknown.
local garbage = redis.call('TYPE', KEYS[1]).ok ~= 'hash'
local stored = not garbage and redis.call('HGET', KEYS[1], ARGV[15]) or ''
local term, seq, safety, since, fingerprint = string.match(stored, '^(%d+)%.(%d+) (%S+) (%S+) (%S*) ')
term, seq, safety, since, fingerprint = number(term), number(seq), safety or '0', since or '', fingerprint or ''
local version = string.format('%.0f.%.0f', term, seq)

local ok
if ARGV[1] ~= '' then
  ok = ARGV[1] == version and (ARGV[10] == '' or ARGV[8] == safety and ARGV[9] == since and ARGV[10] == fingerprint)
else
  local d = tonumber(ARGV[2]) - term
  if d == 0 then d = tonumber(ARGV[3]) - seq end
  if d == 0 then d = tonumber(ARGV[4]) - (tonumber(safety) or 0) end
  if d == 0 then d = compare(since, ARGV[5]) end
  if d == 0 then d = compare(fingerprint, ARGV[6]) end
  ok = d > 0
end
if not ok then return {0, version} end

-- A process that was stopped between its judgement and this step must not take it by what
-- it knew then. The clock may step back between the two, when another server takes over.
if ARGV[11] ~= '' and math.abs(tonumber(redis.call('TIME')[1]) - tonumber(ARGV[11])) > tonumber(ARGV[12]) then
  return {-1, version}
end

-- The version is the entry's id: the stream refuses a state that is asserted again after a
-- failover, so no state is on record twice. A step that cannot be put on record for any
-- other reason is not taken, but a rollback is.
local added = redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[13], ARGV[2] .. '-' .. ARGV[3], 'state', ARGV[7])
if type(added) == 'table' and added.err and ARGV[1] ~= '' and not string.find(added.err, 'equal or smaller', 1, true) then
  return redis.error_reply(added.err)
end

if garbage then redis.call('DEL', KEYS[1]) end
local head = ARGV[2] .. '.' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. ARGV[6] .. ' '
redis.call('HSET', KEYS[1], ARGV[15], head .. ARGV[7])
redis.call('SET', KEYS[3], ARGV[16])
redis.pcall('PUBLISH', ARGV[14], ARGV[15]) -- an instance that misses it hears of it with its next heartbeat
return {1, ARGV[2] .. '.' .. ARGV[3]}
