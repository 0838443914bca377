{{define "state"}}last{{.}}, used{{.}}, aux{{.}}{{end}}
{{- define "after"}}last_{{.}}, used_{{.}}, aux_{{.}}{{end}}
{{- define "decision"}}allowed{{.}}, remaining{{.}}, retry{{.}}, reset{{.}}, delay{{.}}{{end}}
{{- define "terms"}}first{{.}}, second{{.}}, third{{.}}{{end -}}
-- The usual charge of sides without a log, in one straight line: Redis makes no function for it, and no table.
-- straight.go fills in the sides and writes the steps in the places of their calls. A charge that is not usual goes on
-- behind the end of this file, where pair.lua judges any charge. Nothing has been written then, and pair.lua begins again.
--
-- ARGV[1] is what pair.lua says of ARGV, packed: numbers, and names of parts. A name is read as a number, too, which is
-- cheaper than a text; it consists of letters and digits, so it makes one that equals itself. The reply is packed as well:
-- the instant; per side the wait until a retry, -2 if it admits, then remaining, reset and, if it can have one, delay;
-- with an epoch the number before the charge and the instant apart.

local struct, MOST, COUNT, NEVER = rawget(_G, 'struct'), 9007199254740992, 137438953472, -1
if struct then
  local redis, key, pack, unpack = redis, KEYS[1], struct.pack, struct.unpack
  local at, least_ttl, cost
    {{- range .Sides}}, name{{.N}}, {{template "terms" .N}}, window{{.N}}{{end}}{{if .Numbered}}, epoch{{end}} =
    unpack('<ddd{{range .Sides}}ddddd{{end}}{{if .Numbered}}d{{end}}', ARGV[1])
  if at > MOST then
    local t = redis.call('TIME')
    at = t[1] * 1000000 + t[2]
  end

  -- A key without a record has one of zeros: every step takes it for none.
  local record = redis.call('GET', key)
  local usual = not record or #record == {{.Size}}
  if usual then
    local {{range $i, $s := .Sides}}{{if $i}}, {{end}}part{{.N}}, {{template "state" .N}}, seq{{.N}}{{end}}
      {{- if .Numbered}}, numbers, number, other_number, apart, rest{{end}} = unpack('{{.Form}}', record or '{{.Zeros}}')

    -- Adding 2^52 rounds, and is cheaper than a remainder. A sum bounds its terms, for none is negative.
    if record then
      local ROUND = 4503599627370496
      usual = {{range .Sides}}part{{.N}} == name{{.N}} and {{end}}true
{{- range .Sides}}
        and last{{.N}} + ROUND - ROUND == last{{.N}} and used{{.N}} + ROUND - ROUND == used{{.N}}
        and aux{{.N}} + ROUND - ROUND == aux{{.N}} and seq{{.N}} == 0
        and last{{.N}} >= 0 and used{{.N}} >= 0 and aux{{.N}} >= 0
        and last{{.N}} + used{{.N}} + aux{{.N}} <= MOST
{{- end}}
{{- if .Numbered}}
        and numbers == {{.Numbers}} and rest == 0
        and number % 1 == 0 and number >= 0 and number <= MOST
        and (apart == 0 or apart % 1 == 0 and apart > 0 and apart <= MOST)
{{- if .Two}}
        and other_number == number
{{- else}}
        and other_number % 1 == 0 and other_number >= 0 and other_number <= MOST
{{- end}}
{{- end}}
    end

    if usual then
{{- range .Sides}}
      local {{template "decision" .N}}, {{template "after" .N}} =
        {{.Step}}({{template "state" .N}}, 0, {{template "terms" .N}}, cost, at, nil, window{{.N}})
      local stored{{.N}} = allowed{{.N}} and cost > 0 or used{{.N}} > 0 and last_{{.N}} < last{{.N}}
      if stored{{.N}} then -- one value a line: Lua moves those of a list twice
        last{{.N}} = last_{{.N}}
        used{{.N}} = used_{{.N}}
        aux{{.N}} = aux_{{.N}}
      end
{{end}}
      local changed, idle = stored1{{if .Two}} or stored2{{end}}, reset1
{{- if .Two}}
      if reset2 > idle then idle = reset2 end
{{- end}}
{{- if .Numbered}}

      local taken, in_step = number, true
      if number < epoch or number >= epoch + COUNT then
        taken = epoch + at % COUNT * 40503 % COUNT
        in_step = false
      end
{{- if .Two}}
      if apart ~= 0 or not in_step then
        local unused
        if allowed1 and cost > 0 then unused = remaining1 + cost == first1 else unused = reset1 == 0 end
        if allowed2 and cost > 0 then unused = unused and remaining2 + cost == first2 else unused = unused and reset2 == 0 end
        if unused then
          apart = 0
        elseif not in_step then
          apart = at
          if used1 > 0 and last1 > apart then apart = last1 end
          if used2 > 0 and last2 > apart then apart = last2 end
        end
      end
{{- end}}

      number = taken
      if cost > 0 and allowed1 then
        number = taken + 1
        if number == epoch + COUNT then number = epoch end
{{- if not .Two}}
      elseif changed then
        number = 0
{{- end}}
      end
{{- else if .Two}}

      -- A new record of one part is not this file's.
      usual = record or not changed or stored1 and stored2
{{- end}}

      if usual and changed then
        local rest = idle % 1000
        local ttl = (idle - rest) / 1000 + 1000
        if rest > 0 then ttl = ttl + 1 end
        if ttl < least_ttl then ttl = least_ttl end
        local refused = redis.pcall('SET', key, pack('{{.Form}}'
          {{- range .Sides}}, name{{.N}}, {{template "state" .N}}, 0{{end}}
          {{- if .Numbered}}, {{.Numbers}}, number, {{if .Two}}number{{else}}other_number{{end}}, apart, 0{{end}}), 'PX', ttl).err
        if refused then return {err = string.match(refused, '^%-?([^\r\n]*)')} end
      end

      if usual then
        return pack('<d{{range .Sides}}ddd{{if .Delays}}d{{end}}{{end}}{{if .Numbered}}dd{{end}}', at
          {{- range .Sides}}, allowed{{.N}} and -2 or retry{{.N}}, remaining{{.N}}, reset{{.N}}{{if .Delays}}, delay{{.N}}{{end}}{{end}}
          {{- if .Numbered}}, taken, apart{{end}})
      end
    end
  end
end

-- ARGV as pair.lua takes it. An instant above all instants stands for the server's clock.
local packed, ARGV = ARGV[1], {}
if struct then
  ARGV = {struct.unpack('<ddd{{range .Sides}}c8dddd{{end}}{{if .Numbered}}d{{end}}', packed)}
  ARGV[#ARGV] = nil -- where a further field would begin
else
  -- number_at reads a double, which is a whole number.
  local function number_at(i)
    local a, b, c, d, e, f, g, h = string.byte(packed, i, i + 7)
    local exponent, fraction = h % 128 * 16 + (g - g % 16) / 16, g % 16
    if exponent == 0 then return 0 end
    for _, byte in ipairs({f, e, d, c, b, a}) do fraction = fraction * 256 + byte end
    return (h < 128 and 1 or -1) * (4503599627370496 + fraction) * 2 ^ (exponent - 1075)
  end

  for i = 1, #packed / 8 do
    local first = 8 * i - 7
    if i == 4{{if .Two}} or i == 9{{end}} then ARGV[i] = string.sub(packed, first, first + 7) else ARGV[i] = number_at(first) end
  end
end
if ARGV[1] > MOST then ARGV[1] = '' end
