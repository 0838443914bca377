-- The check of one key by one side or by two, the enforced one first. This file is a template of Go: script.go puts the
-- steps of the sides into their places.
--
-- KEYS: the record, then the sorted set of each side that keeps a log.
-- ARGV: one text of doubles, for Redis makes a text of each argument. They are the instant in microseconds, above 2^53
--       for the server's clock; how long the record lives at least, in milliseconds; the cost; how much longer than its
--       state the record lives; 1 for a deferred check, else 0; and of each side the name, the three terms of its limit,
--       and the window in microseconds (algorithms.Terms).
-- Reply: one text of doubles, the instant and of each side status, remaining, retry, reset and delay. The last three are
--       waits in microseconds, -1 for one that does not end. The status is 1 if the side admits and 0 if it denies,
--       2 more if its log has lost entries that count, and -1 if the side has failed: then there are `remaining` bytes
--       of a text behind the doubles.
--
-- The record is one part of 40 bytes or two, each five doubles: a name and a state (last, used, aux, seq). A record of
-- another length is none. Eight letters and digits are a name; read as a double they are a number like any other, and
-- cheaper to compare than a text. 0 is no name.
--
-- A step is a file of its own. It reads and sets local names: the state, of which seq belongs to logs; the terms of the
-- limit (first, second, third); cost and at; now, the instant at which the state is judged; and back, which says that the
-- state lies further ahead than a window, because the clock was set back: the step then moves it to at. It sets allowed,
-- remaining, retry, reset and delay, and changes the state only if the check counts, or to move it.
--
-- Numbers are whole and at most 2^53, where a double is exact. a % b rounds towards minus infinity, so (a - a % b) / b
-- is a/b rounded down, and (a + -a % b) / b is a/b rounded up. No assignment to several names reads one of them: where
-- Lua is miniredis's, it would read the new value.

local struct, MOST, NEVER = rawget(_G, 'struct'), 9007199254740992, -1
if not struct then
{{.Binary}}end
{{- if .Logs}}

{{.Functions}}
{{- end}}

local at, least, cost, longer, deferred
  {{- range .Sides}}, name{{.N}}, first{{.N}}, second{{.N}}, third{{.N}}, window{{.N}}{{end}} = struct.unpack('<ddddd{{range .Sides}}ddddd{{end}}', ARGV[1])
if at > MOST then
  local time = redis.call('TIME')
  at = time[1] * 1000000 + time[2]
end

local record = redis.call('GET', KEYS[1])
local part1, last1, used1, aux1, seq1, part2, last2, used2, aux2, seq2 = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
if record and #record == 40 then
  part1, last1, used1, aux1, seq1 = struct.unpack('<ddddd', record)
elseif record and #record == 80 then
  part1, last1, used1, aux1, seq1, part2, last2, used2, aux2, seq2 = struct.unpack('<dddddddddd', record)
end
{{- if .Two}}
local copied = false
{{- else}}

-- The second part stays as it is, or the first one, where this side is not there yet.
local name2 = part2
if part1 ~= name1 and part1 ~= 0 and part1 == part1 then name2 = part1 end
{{- end}}

-- Parts go by name: a side keeps its state when it is promoted, and begins afresh when it has no part.
if part1 ~= name1 or part2 ~= name2 then
  local one, two, none = {last1, used1, aux1, seq1}, {last2, used2, aux2, seq2}, {0, 0, 0, 0}
  local state1 = part1 == name1 and one or part2 == name1 and two or none
  local state2 = part1 == name2 and one or part2 == name2 and two or none
{{- if .Twins}}

  -- A side that is not enforced begins as a copy of the other one, if both are of one algorithm and window.
  if state2 == none and state1 ~= none and window1 == window2{{if .Logs}} and state1[3] <= COPIED{{end}} then
    state2 = state1
    copied = true
  end
{{- end}}
  last1, used1, aux1, seq1 = state1[1], state1[2], state1[3], state1[4]
  last2, used2, aux2, seq2 = state2[1], state2[2], state2[3], state2[4]
end

-- A part whose numbers are none of a step's starts afresh.
{{- range .Sides}}
if last{{.N}} % 1 + used{{.N}} % 1 + aux{{.N}} % 1 + seq{{.N}} % 1 ~= 0
  or last{{.N}} < -MOST or last{{.N}} > MOST or used{{.N}} < 0 or used{{.N}} > MOST
  or aux{{.N}} < -MOST or aux{{.N}} > MOST or seq{{.N}} < 0 or seq{{.N}} > MOST then
  last{{.N}}, used{{.N}}, aux{{.N}}, seq{{.N}} = 0, 0, 0, 0
end
{{- end}}
{{- if not .Two}}

-- A deferred check may come behind later ones of its key: it is judged at their instant.
if deferred > 0 and used1 > 0 and last1 > at then at = last1 end
{{- end}}
{{- if .Logs}}

-- A Redis without memory refuses what a script writes. Then this log is given up, for it must not fail the enforced side.
local spare = {{if .Two}}{{with .Spare}}KEYS[{{.Key}}]{{else}}nil{{end}}{{else}}deferred > 0 and KEYS[2]{{end}}
{{- end}}
{{- range .Sides}}

local status{{.N}}, remaining{{.N}}, retry{{.N}}, reset{{.N}}, delay{{.N}}, changed{{.N}}, failure{{.N}}{{if .Key}}, entries{{.N}}{{end}} = 0, 0, 0, 0, 0, false
do
  local last, used, aux, seq, first, second, third = last{{.N}}, used{{.N}}, aux{{.N}}, seq{{.N}}, first{{.N}}, second{{.N}}, third{{.N}}
  local allowed, remaining, retry, reset, delay = false, 0, 0, 0, 0
  local now, back = at, false
  if used > 0 and last > at then
    back = last - at > window{{.N}}
    if not back then now = last end
  end
{{- if .Key}}

  -- The set may be of another type, or have entries that are none of a step's: that fails its side alone.
  local own, set, entries, lost = KEYS[{{.Key}}], KEYS[{{.Key}}], nil, false
{{- if and $.Twins (eq .N 2)}}
  if copied then set = KEYS[2] end
{{- end}}
  local ok, failed = pcall(function()
{{.Step}}
  end)
  if ok then
    entries{{.N}} = entries
    if lost then status{{.N}} = 2 end
{{- else}}

{{.Step}}
{{- end}}
  if allowed then status{{.N}} = {{if .Key}}status{{.N}} + {{end}}1 end
  remaining{{.N}}, retry{{.N}}, reset{{.N}}, delay{{.N}} = remaining, retry, reset, delay
  changed{{.N}} = allowed and cost > 0 or last < last{{.N}}
  last{{.N}}, used{{.N}}, aux{{.N}}, seq{{.N}} = last, used, aux, seq
{{- if .Key}}
  else
    failure{{.N}} = tostring(type(failed) == 'table' and failed.err or failed)
    if part1 ~= name{{.N}} and part2 ~= name{{.N}} then -- it has no part, and gets none
      name{{.N}}, last{{.N}}, used{{.N}}, aux{{.N}}, seq{{.N}} = 0, 0, 0, 0, 0
    end
  end
{{- end}}
end
{{- end}}

if changed1{{if .Two}} or changed2{{end}} then
  local idle = reset1
{{- if .Two}}
  if reset2 > idle then idle = reset2 end
{{- end}}
  local ttl = (idle + -idle % 1000) / 1000 + longer
  if ttl < least then ttl = least end
{{- if not .Two}}
  if name2 ~= 0 then ttl = math.max(ttl, redis.call('PTTL', KEYS[1])) end
{{- else if .Logs}}
  if failure1 or failure2 then ttl = math.max(ttl, redis.call('PTTL', KEYS[1])) end
{{- end}}
{{- if .Logs}}
{{- if .Twins}}
  if copied and entries2 then take_over(entries2, KEYS[2]) end
{{- end}}

  -- What a Redis refuses is the first write, if any: once a script has written, it may go on.
  local function ttl_of(reset) return math.max(least, (reset + -reset % 1000) / 1000 + longer) end
  local function write()
{{- with index .Sides 0}}{{if .Key}}
    local refused = changed1 and entries1 and store(KEYS[{{.Key}}], entries1, ttl_of(reset1))
    if refused then return refused end
{{- end}}{{end}}
    return {{template "set" .}}
  end

  local refused = write()
{{- with .Spare}}
  if refused and spare and record and string.find(refused, 'OOM ', 1, true) then
    redis.call('UNLINK', spare)
    last{{.N}}, used{{.N}}, aux{{.N}}, seq{{.N}}, entries{{.N}}, failure{{.N}} = at, 0, 0, 0, nil, 'LOGSHED'
    ttl = math.max(ttl, ttl_of(window{{.N}}))
    refused = write()
  end
{{- end}}
{{- else}}
  local refused = {{template "set" .}}
{{- end}}
{{- if .Two}}

  -- What the second side alone has to write does not fail the first one.
  if refused and not changed1 then
    failure2 = refused
    refused = nil
{{- with index .Sides 1}}{{if .Key}}
  elseif not refused and (changed2{{if $.Twins}} or copied{{end}}) and entries2 then
    failure2 = store(KEYS[{{.Key}}], entries2, ttl_of(reset2))
{{- end}}{{end}}
  end
{{- end}}
  if refused then return {err = string.match(refused, '^%-?([^\r\n]*)')} end -- some releases leave the protocol's signs in it
end

local texts = ''
{{- range .Sides}}
if failure{{.N}} then
  status{{.N}}, remaining{{.N}}, retry{{.N}}, reset{{.N}}, delay{{.N}} = -1, #failure{{.N}}, 0, 0, 0
  texts = texts .. failure{{.N}}
end
{{- end}}
return struct.pack('<d{{range .Sides}}ddddd{{end}}', at
  {{- range .Sides}}, status{{.N}}, remaining{{.N}}, retry{{.N}}, reset{{.N}}, delay{{.N}}{{end}}) .. texts
{{- define "set"}}redis.pcall('SET', KEYS[1],
    {{if not .Two}}name2 == 0 and struct.pack('<ddddd', name1, last1, used1, aux1, seq1) or {{end -}}
    struct.pack('<dddddddddd', name1, last1, used1, aux1, seq1, name2, last2, used2, aux2, seq2),
    'PX', string.format('%d', ttl)).err -- of a number Redis writes 17 digits, which takes longer
{{- end}}
