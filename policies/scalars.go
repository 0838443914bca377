package policies

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// MostText bounds a text of a policy file, in bytes. It travels with every announcement of a policy, and a terminal shows it.
const MostText = 1000

// text returns a reader that stores a scalar's text of up to MostText bytes. A field without a value is none. A text that
// stands in Redis keys or metrics has the reader name.
func (r *reader) text(what string, into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			r.fail(n, "%s: want text", what)
			return
		}
		if len(n.Value) > MostText {
			r.fail(n, "%s: a text of %d bytes: want at most %d", what, len(n.Value), MostText)
			return
		}
		*into = n.Value
	}
}

// choice returns a reader of one of a few words, which it names where there is another.
func (r *reader) choice(what string, into *string, words ...string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || !slices.Contains(words, n.Value) {
			r.fail(n, "%s: want %s", what, strings.Join(words, " or "))
			return
		}
		*into = n.Value
	}
}

// A colon separates names in Redis keys, braces enclose their hash tag, and metric
// labels are unlimited: hence few characters, and at most 100 of them.
var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// ValidName reports whether a name may stand in Redis keys and metrics: 1 to 100
// letters, digits, '.', '_' or '-'.
func ValidName(name string) bool { return validName.MatchString(name) }

// name returns a reader of a name that may stand in Redis keys and metrics.
func (r *reader) name(what string, into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || !ValidName(n.Value) {
			r.fail(n, "%s: want 1 to 100 letters, digits, '.', '_' or '-'", what)
			return
		}
		*into = n.Value
	}
}

// count returns a reader of a whole number from least on.
func (r *reader) count(what string, into *int64, least int64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := strconv.ParseInt(n.Value, 10, 64)
		if errors.Is(err, strconv.ErrRange) {
			r.fail(n, "%s: %s is too large", what, n.Value)
			return
		}
		if n.Kind != yaml.ScalarNode || err != nil || v < least {
			r.fail(n, "%s: want a whole number, at least %d", what, least)
			return
		}
		*into = v
	}
}

// duration returns a reader of a duration above 0, in the units of a window.
func (r *reader) duration(what string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, err := algorithms.ParseWindow(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v <= 0 {
			r.fail(n, "%s: want %s", what, aDuration)
			return
		}
		*into = v
	}
}

// aDuration describes one in a message.
const aDuration = "a duration above 0 in us, ms, s, m, h or d, such as 1m or 1h30m"

// minutes returns a reader of a duration of whole minutes, the unit of the ledger.
func (r *reader) minutes(what string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// One problem is enough: a bad duration has no minutes.
		before := r.errors()
		r.duration(what, into)(n)
		if r.errors() == before && *into%time.Minute != 0 {
			r.fail(n, "%s: want whole minutes, the resolution of the evidence", what)
			*into = 0 // the gate would say the same once more
		}
	}
}

// fraction returns a reader of a percentage, stored as a fraction. 100 % is refused: no
// ratio is above such a threshold, and a sample of all keys is the default.
func (r *reader) fraction(what string, into *float64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v, ok := percentage(n)
		if !ok || v >= 100 {
			r.fail(n, "%s: want a percentage above 0%% and below 100%%, such as 2%%", what)
			return
		}
		*into = v / 100
	}
}

// percentage reads a number above 0 and up to 100. The sign is required: 0.02 could
// mean 2 % or 0.02 %.
func percentage(n *yaml.Node) (float64, bool) {
	number, found := strings.CutSuffix(n.Value, "%")
	v, err := strconv.ParseFloat(number, 64)
	return v, n.Kind == yaml.ScalarNode && found && err == nil && v > 0 && v <= 100
}
