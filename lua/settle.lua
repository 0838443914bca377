-- The settlement of one check on one side or two. This file is a template of Go, as pair.lua is, which says what a record is.
--
-- KEYS: the record, then the sorted set of each side that keeps a log.
-- ARGV: one text of doubles: the instant in microseconds, above 2^53 for the server's clock; how long a record lives at least, and how
--       much longer than its state, in milliseconds; what each side was charged, and the final cost; and of each side the name, the instant
--       of the charge and the opening of an anchored window, the three terms of its limit, and the window in microseconds.
-- Reply: one text of doubles, of each side 0 if it has the final cost, 1 if what was charged does not count any more, and -1 if the side
--       has failed.
--
-- A chunk of a side reads its state, charged, opened, cost, final, now and the terms, and sets counts if it has changed the state, or
-- needs not. A bucket has reset, too. A state of which nothing is used is none.

local struct, MOST = rawget(_G, 'struct'), 9007199254740992
if not struct then
{{.Binary}}end
{{- if .Functions}}

{{.Functions}}
{{- end}}

local at, least, longer, cost, final
  {{- range .Sides}}, name{{.N}}, charged{{.N}}, opened{{.N}}, first{{.N}}, second{{.N}}, third{{.N}}, window{{.N}}{{end}} = struct.unpack('<ddddd{{range .Sides}}ddddddd{{end}}', ARGV[1])
if at > MOST then
  local time = redis.call('TIME')
  at = time[1] * 1000000 + time[2]
end

local function changed(count) return math.max(0, math.min(count + final - cost, MOST - 1)) end

local record, parts = redis.call('GET', KEYS[1]), {{"{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}"}}
if record and #record == 40 then
  parts[1] = {struct.unpack('<ddddd', record)}
elseif record and #record == 80 then
  parts[1], parts[2] = {struct.unpack('<ddddd', string.sub(record, 1, 40))}, {struct.unpack('<ddddd', string.sub(record, 41))}
end

-- A part that has no number in it, or none of a step's, is not used.
for _, part in ipairs(parts) do
  local last, used, aux, seq = part[2], part[3], part[4], part[5]
  if part[1] ~= part[1] then part[1] = 0 end
  if last % 1 + used % 1 + aux % 1 + seq % 1 ~= 0 or last < -MOST or last > MOST or used < 0 or used > MOST
    or aux < -MOST or aux > MOST or seq < 0 or seq > MOST then
    part[2], part[3], part[4], part[5] = 0, 0, 0, 0
  end
end

local write, ttl = false, 0
{{- range .Sides}}

local status{{.N}}, entries{{.N}} = 1, nil
do
  local part = parts[1][1] == name{{.N}} and parts[1] or parts[2][1] == name{{.N}} and parts[2]
{{- if .Bucket}}
    or parts[1][1] == 0 and parts[1] or parts[2][1] == 0 and parts[2] -- its debt had drained, and was forgotten
{{- end}}
  if part then
    local last, used, aux, seq, first, second, third, window = part[2], part[3], part[4], part[5], first{{.N}}, second{{.N}}, third{{.N}}, window{{.N}}
    local charged, opened, now, back, counts, reset, entries = charged{{.N}}, opened{{.N}}, at, false, false, 0, nil
    if used > 0 and last > at then now = last end
{{- if .Key}}
    local set = KEYS[{{.Key}}]
    local ok = pcall(function()
{{.Step}}
    end)
    if not ok then status{{.N}} = -1 end
    entries{{.N}} = ok and entries
{{- else}}

{{.Step}}
{{- end}}
    if counts{{if .Key}} and ok{{end}} then
      status{{.N}} = 0
      if used == 0 then last, aux, seq = 0, 0, 0 end
      if last ~= part[2] or used ~= part[3] or aux ~= part[4] or seq ~= part[5] then
        part[1], part[2], part[3], part[4], part[5] = name{{.N}}, last, used, aux, seq
        write, ttl = true, math.max(ttl, (reset + -reset % 1000) / 1000 + longer)
      end
    end
  end
end
{{- end}}

if write then
{{- range .Sides}}{{if .Key}}
  if entries{{.N}} then
    for i = 1, #entries{{.N}}.remove, 1000 do
      redis.call('ZREM', KEYS[{{.Key}}], unpack(entries{{.N}}.remove, i, math.min(i + 999, #entries{{.N}}.remove)))
    end
    for i = 1, #entries{{.N}}.add, 1000 do
      redis.call('ZADD', KEYS[{{.Key}}], unpack(entries{{.N}}.add, i, math.min(i + 999, #entries{{.N}}.add)))
    end
  end
{{- end}}{{end}}
  ttl = math.max(ttl, least, redis.call('PTTL', KEYS[1]))
  local one, two = parts[1], parts[2]
  local text = struct.pack('<ddddd', one[1], one[2], one[3], one[4], one[5])
  if two[1] ~= 0 then text = text .. struct.pack('<ddddd', two[1], two[2], two[3], two[4], two[5]) end
  redis.call('SET', KEYS[1], text, 'PX', string.format('%.0f', ttl))
end
return struct.pack('<{{range .Sides}}d{{end}}'{{range .Sides}}, status{{.N}}{{end}})
