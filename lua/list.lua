-- Checks of several keys that are charged together: a side is charged iff it admits and the first side of every other check admits.
-- This file is a template of Go, as pair.lua is, which says how a check is judged. Each check is a function, which looks at its own
-- sides, calls that of the next check, and so learns how many deny before it charges. All of them are judged before the first one writes.
--
-- KEYS: of each check as in pair.lua.
-- ARGV: of each check as in pair.lua. The instant is that of the first one.
-- Reply: one text of doubles, the instant and the numbers of all sides, and the texts of those that have failed behind them.
{{template "library" (index .Checks 0)}}
local answers, messages, instant, refusal = '', ''
{{- range .Backwards}}

-- denying is how many of the checks before deny; the result is how many of all do. A check that another one blocks is
-- judged once more, with a cost of 0: that is what a side answers that admits.
local function check{{.Index}}(denying, blocked)
  {{template "numbers" .}}
{{- if eq .Index 0}}
  if at > MOST and not blocked then
    local time = redis.call('TIME')
    at = time[1] * 1000000 + time[2]
  end
  instant = instant or at
{{- end}}
  at = instant
  if blocked then cost = 0 end
{{template "look" .}}

  if not blocked then
    local denies = {{if .Binds}}status1 % 2 == 0 and not failure1 and 1 or {{end}}0
    denying = {{if .Last}}denying + denies{{else}}check{{.Next}}(denying + denies){{end}}
{{- if not .Last}}
    if refusal then return denying end
{{- end}}
    if denying > denies then
      local {{range $i, $s := .Sides}}{{if $i}}, {{end}}s{{.N}}, a{{.N}}, b{{.N}}, c{{.N}}, d{{.N}}, f{{.N}}{{end}} = check{{.Index}}(0, true)
{{- range .Sides}}
      if failure{{.N}} or status{{.N}} % 2 == 1 then
        status{{.N}}, remaining{{.N}}, retry{{.N}}, reset{{.N}}, delay{{.N}}, failure{{.N}} = s{{.N}}, a{{.N}}, b{{.N}}, c{{.N}}, d{{.N}}, f{{.N}}
      end
      changed{{.N}} = false
{{- end}}
      if refusal then return denying end
    end
  end

{{template "charge" .}}
  if blocked then
    return {{range $i, $s := .Sides}}{{if $i}}, {{end}}status{{.N}}, remaining{{.N}}, retry{{.N}}, reset{{.N}}, delay{{.N}}, failure{{.N}}{{end}}
  end

{{template "failures" .}}
  answers = struct.pack('<{{if eq .Index 0}}d{{end}}{{$receipt := .Receipt}}{{range .Sides}}ddddd{{if $receipt}}dd{{end}}{{end}}'{{if eq .Index 0}}, at{{end}}
    {{- range .Sides}}, status{{.N}}, remaining{{.N}}, retry{{.N}}, reset{{.N}}, delay{{.N}}{{if $receipt}}, last{{.N}}, aux{{.N}}{{end}}{{end}}) .. answers
  messages = texts .. messages
  return denying
end
{{- end}}

check0(0)
if refusal then return {err = string.match(refusal, '^%-?([^\r\n]*)')} end
return answers .. messages
