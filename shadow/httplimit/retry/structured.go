package retry

import "strings"

// structured reads the field RateLimit, which is a list of items from draft 08 on: "name";r=0;t=30. In draft 07 it is a dictionary:
// limit=100, remaining=0, reset=30. The tightest of several items counts. Parts that are something else are left out, so that a
// later draft's additions do no harm.
func structured(lines []string) (tightest quota, found bool) {
	dictionary := unknown
	tightest = unknown
	for _, line := range first(lines) {
		for _, entry := range split(bounded(line), ',') {
			parts := split(entry, ';')
			// Only a dictionary has a key before the first parameter. A name in quotes may contain any character.
			if name, value, pair := strings.Cut(parts[0], "="); pair && !strings.HasPrefix(parts[0], `"`) {
				found = dictionary.set(name, value, "remaining", "reset") || found
				continue
			}

			// A list's item: its value is the name of a policy, which says nothing of the wait.
			item, ok := unknown, false
			for _, parameter := range parts[1:] {
				name, value, _ := strings.Cut(parameter, "=")
				ok = item.set(name, value, "r", "t") || ok
			}
			if ok {
				tightest, found = item.tighter(tightest), true
			}
		}
	}
	return dictionary.tighter(tightest), found
}

// set takes over a value whose name says that it remains or is the reset, and reports whether it can be read.
func (q *quota) set(name, value, remaining, reset string) bool {
	// Other parameters, such as the key of a partition, need not be numbers.
	number, ok := quantity(value)
	switch {
	case !ok:
		return false
	case strings.TrimSpace(name) == remaining:
		q.remaining = number.Seconds()
	case strings.TrimSpace(name) == reset:
		q.reset = number
	default:
		return false
	}
	return true
}

// split splits at a separator outside of quoted strings, into a bounded number of parts without spaces around them.
func split(text string, separator byte) (parts []string) {
	start, quoted := 0, false
	for i := 0; i < len(text) && len(parts) < mostEntries; i++ {
		switch {
		case quoted && text[i] == '\\':
			i++ // the next byte does not end the string
		case text[i] == '"':
			quoted = !quoted
		case text[i] == separator && !quoted:
			parts = append(parts, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
	}
	return append(parts, strings.TrimSpace(text[start:]))
}
