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
-- Where a receipt is asked for, the numbers of each side have two more: the last and aux of its state.
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

{{template "library" .}}
{{template "numbers" .}}
if at > MOST then
  local time = redis.call('TIME')
  at = time[1] * 1000000 + time[2]
end

{{template "look" .}}

{{template "charge" .}}

{{template "failures" .}}
return struct.pack('<d{{range .Sides}}ddddd{{if $.Receipt}}dd{{end}}{{end}}', at
  {{- range .Sides}}, status{{.N}}, remaining{{.N}}, retry{{.N}}, reset{{.N}}, delay{{.N}}{{if $.Receipt}}, last{{.N}}, aux{{.N}}{{end}}{{end}}) .. texts
