{{- /* What is the same in a check that stands alone (pair.lua) and in one of a list (list.lua). */ -}}
{{define "library"}}local struct, MOST, NEVER = rawget(_G, 'struct'), 9007199254740992, -1
if not struct then
{{.Binary}}end
{{- if .Functions}}

{{.Functions}}
{{- end}}
{{end}}
{{- define "numbers"}}local at, least, cost, longer, deferred
  {{- range .Sides}}, name{{.N}}, first{{.N}}, second{{.N}}, third{{.N}}, window{{.N}}{{end}} = struct.unpack('<ddddd{{range .Sides}}ddddd{{end}}', ARGV[{{.Argument}}])
{{- end}}
{{- define "look"}}local record = redis.call('GET', KEYS[{{.Record}}])
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
local spare = {{if .Two}}{{with .Spare}}KEYS[{{.Key}}]{{else}}nil{{end}}{{else}}deferred > 0 and KEYS[{{(index .Sides 0).Key}}]{{end}}
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
  if copied then set = KEYS[{{(index $.Sides 0).Key}}] end
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
{{- end}}
{{- define "charge"}}if changed1{{if .Two}} or changed2{{end}} then
  local idle = reset1
{{- if .Two}}
  if reset2 > idle then idle = reset2 end
{{- end}}
  local ttl = (idle + -idle % 1000) / 1000 + longer
  if ttl < least then ttl = least end
{{- if not .Two}}
  if name2 ~= 0 then ttl = math.max(ttl, redis.call('PTTL', KEYS[{{.Record}}])) end
{{- else if .Logs}}
  if failure1 or failure2 then ttl = math.max(ttl, redis.call('PTTL', KEYS[{{.Record}}])) end
{{- end}}
{{- if .Logs}}
{{- if .Twins}}
  if copied and entries2 then take_over(entries2, KEYS[{{(index .Sides 0).Key}}]) end
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
  {{if .Listed}}refusal = refused{{else}}if refused then return {err = string.match(refused, '^%-?([^\r\n]*)')} end -- some releases leave the protocol's signs in it{{end}}
end
{{- end}}
{{- define "failures"}}local texts = ''
{{- range .Sides}}
if failure{{.N}} then
  status{{.N}}, remaining{{.N}}, retry{{.N}}, reset{{.N}}, delay{{.N}} = -1, #failure{{.N}}, 0, 0, 0
  texts = texts .. failure{{.N}}
end
{{- end}}
{{- end}}
{{- define "set"}}redis.pcall('SET', KEYS[{{.Record}}],
    {{if not .Two}}name2 == 0 and struct.pack('<ddddd', name1, last1, used1, aux1, seq1) or {{end -}}
    struct.pack('<dddddddddd', name1, last1, used1, aux1, seq1, name2, last2, used2, aux2, seq2),
    'PX', string.format('%d', ttl)).err -- of a number Redis writes 17 digits, which takes longer
{{- end -}}
