package policies

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"
)

// Promotion is what the file says about promoting a policy. A field that the file
// leaves out has its zero value: the gate knows the defaults.
type Promotion struct {
	// Mode is "manual" or "automatic".
	Mode string
	// Divergence, NewlyDenied, NewlyAllowed and ExtraLoad are thresholds, fractions above 0
	// and below 1. NewlyAllowed has no default: left out, that ratio is shown and not judged.
	Divergence, NewlyDenied, NewlyAllowed, ExtraLoad float64
	// Soak and Dwell are whole minutes.
	Soak, Dwell time.Duration
	// MinDenials and MinDeniedKeys are at least 1.
	MinDenials, MinDeniedKeys int64
	// Canary are rising percentages of the keys, up to 100.
	Canary []float64
	// ChangeDays, ChangeFrom and ChangeTo, since midnight, are the change window. The two
	// times are from 0 to 24 hours; without a window all three are zero.
	ChangeDays           []time.Weekday
	ChangeFrom, ChangeTo time.Duration
	// ChangeZone is nil for UTC.
	ChangeZone *time.Location

	// Protect are the protected keys, at most 32.
	Protect []string

	expected []*expectation
	first    *keyCondition // pins keys; nil: none is
}

func (p *Promotion) isFirst(parts []string) (bool, error) {
	// Without claims nothing in it is endless, so it needs no deadline.
	v, _, err := p.first.program.Eval(keyOf(parts))
	if err != nil {
		return false, fmt.Errorf("policies: first %s: %w", p.first.source, err)
	}
	return v == types.True, nil
}

// readPromotion returns a reader that overrides the fields that a section names, so that a
// policy's section starts from the file's. Whether the gate can judge by the numbers is
// for a Check to say.
func readPromotion(c *compiler, into *Promotion) func(*yaml.Node) {
	return func(n *yaml.Node) {
		c.mapping(n, "promotion", map[string]field{
			// The evidence that a step needs.
			"divergence":      {read: c.fraction("divergence", &into.Divergence)},
			"newly_denied":    {read: c.fraction("newly_denied", &into.NewlyDenied)},
			"newly_allowed":   {read: c.fraction("newly_allowed", &into.NewlyAllowed)},
			"extra_load":      {read: c.fraction("extra_load", &into.ExtraLoad)},
			"soak":            {read: c.minutes("soak", &into.Soak)},
			"min_denials":     {read: c.count("min_denials", &into.MinDenials, 1)},
			"min_denied_keys": {read: c.count("min_denied_keys", &into.MinDeniedKeys, 1)},
			"expected":        {read: readExpected(c, &into.expected)},
			"protect":         {read: readProtect(c.reader, &into.Protect)},

			// The steps, and when they are taken.
			"mode":          {read: c.choice("mode", &into.Mode, "manual", "automatic")},
			"canary":        {read: readCanary(c.reader, &into.Canary)},
			"dwell":         {read: c.minutes("dwell", &into.Dwell)},
			"change_window": {read: readChangeWindow(c.reader, into)},
			"first":         {read: readFirst(c, &into.first)},
		})
	}
}

// readCanary returns a reader of the canary's percentages. They rise: a step is a step
// forward, and the way back is a rollback.
func readCanary(r *reader, into *[]float64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil // a policy's steps replace the file's
		for _, item := range r.items(n, "canary") {
			v, ok := percentage(item)
			if !ok || len(*into) > 0 && v <= (*into)[len(*into)-1] {
				r.fail(item, "canary: want rising percentages, such as [1%%, 10%%, 50%%]")
				return
			}
			*into = append(*into, v)
		}

		// No step would mean from shadow to all keys at once, and promote --to 100% says so where an operator means it.
		if len(*into) == 0 && n.Kind == yaml.SequenceNode {
			r.fail(n, "canary: want at least one step, such as [10%%]")
		}
	}
}

// mostProtected is evidence.MostProtected, which this package does not import.
const mostProtected = 32

// readProtect returns a reader of a list of keys, each by the text under which a request is charged: top shows it, where the service
// has no secret.
func readProtect(r *reader, into *[]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil // a policy's keys replace the file's
		items := r.items(n, "protect")
		if len(items) == 0 && n.Kind == yaml.SequenceNode {
			r.fail(n, "protect: want at least one key, such as [acme]")
		}

		for i, item := range items {
			key, before := "", r.errors()
			r.text("protect", &key)(item)
			switch {
			case r.errors() > before:
			case key == "":
				r.fail(item, "protect: an empty key: name a client")
			case slices.Contains(*into, key):
				r.fail(item, "protect: %s is in the list already", key)
			case i >= mostProtected:
				r.fail(item, "protect: %d keys: want at most %d; more of them are a policy of their own", len(items), mostProtected)
				return
			}
			*into = append(*into, key)
		}
	}
}

// readChangeWindow returns a reader of the part of the week in which stages may move
// forward. A window over midnight is two windows, which the gate does not have.
func readChangeWindow(r *reader, into *Promotion) func(*yaml.Node) {
	return func(n *yaml.Node) {
		const unread = -1
		from, to := time.Duration(unread), time.Duration(unread)
		r.mapping(n, "change_window", map[string]field{
			"days": {read: readDays(r, &into.ChangeDays), required: true},
			"from": {read: readTimeOfDay(r, "from", &from), required: true},
			"to":   {read: readTimeOfDay(r, "to", &to), required: true},
			"zone": {read: readZone(r, &into.ChangeZone)},
		})

		// A time that is missing or wrong has a problem of its own already.
		if from == unread || to == unread {
			return
		}

		// Such a window would never open, or, from 0 to 0, mean the default.
		if to <= from {
			r.fail(n, "change_window: \"to\" must be later in the day than \"from\"; midnight at its end is \"24:00\"")
		}
		into.ChangeFrom, into.ChangeTo = from, to
	}
}

// weekdays are the words of the file, by time.Weekday.
var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func readDays(r *reader, into *[]time.Weekday) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil // a policy's days replace the file's
		for _, item := range r.items(n, "days") {
			i := slices.Index(weekdays, item.Value)
			if i < 0 {
				r.fail(item, "days: want some of %s", strings.Join(weekdays, ", "))
				return
			}
			*into = append(*into, time.Weekday(i))
		}

		// An empty list would be a window that never opens.
		if len(*into) == 0 && n.Kind == yaml.SequenceNode {
			r.fail(n, "days: want at least one of %s", strings.Join(weekdays, ", "))
		}
	}
}

// readTimeOfDay returns a reader of a time, stored since midnight.
func readTimeOfDay(r *reader, what string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Value == "24:00" { // the end of a day, which package time does not know
			*into = 24 * time.Hour
			return
		}

		t, err := time.Parse("15:04", n.Value)
		if err != nil {
			r.fail(n, "%s: want a time of day between \"00:00\" and \"24:00\"", what)
			return
		}
		*into = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	}
}

func readZone(r *reader, into **time.Location) func(*yaml.Node) {
	return func(n *yaml.Node) {
		zone, err := time.LoadLocation(n.Value)
		if err != nil {
			r.fail(n, "zone: no time zone %q: want a name such as UTC or Europe/Berlin", n.Value)
			return
		}
		*into = zone
	}
}

// expectation is a declared difference. Its owner is the person or team to ask when
// it ends: every message about the declaration names them. until is the first instant at
// which the difference counts again.
type expectation struct {
	when      *expression
	direction string
	until     time.Time
	owner     string
}

// Directions of a declared difference.
const (
	newlyDenied  = "newly_denied"
	newlyAllowed = "newly_allowed"
)

// maxExpected bounds the declared differences of a policy, each of which is evaluated
// for every request that the policy charges.
const maxExpected = 20

// readExpected returns a reader of the declared differences.
func readExpected(c *compiler, into *[]*expectation) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil // a policy's list replaces the file's
		items := c.items(n, "expected")
		if len(items) > maxExpected {
			c.fail(n, "expected: %d differences: at most %d", len(items), maxExpected)
			return
		}

		for _, item := range items {
			*into = append(*into, readExpectation(c, item))
		}
	}
}

// readExpectation reads one declared difference, and warns if it has ended: the file then
// says that a difference is wanted which counts against the candidate.
func readExpectation(c *compiler, n *yaml.Node) *expectation {
	x := &expectation{}
	untilAt := n
	c.mapping(n, "an expected difference", map[string]field{
		"when":      {read: func(n *yaml.Node) { x.when = c.compile(n, "when", cel.BoolType) }, required: true},
		"direction": {read: c.choice("direction", &x.direction, newlyDenied, newlyAllowed), required: true},
		"until": {required: true, read: func(n *yaml.Node) {
			untilAt = n
			readUntil(c.reader, &x.until)(n)
		}},
		"owner": {read: c.text("owner", &x.owner), required: true},
	})

	// An old declaration still loads: a service must not fail to start on the day after.
	if !x.until.IsZero() && !time.Now().Before(x.until) {
		c.warn(untilAt, "until: the declaration ended on %s, and the difference counts against the candidate again; "+
			"ask its owner, %s, whether to extend it or to remove it", day(x.until), x.owner)
	}
	return x
}

// readUntil returns a reader of the day, or the instant, at which a declaration ends.
func readUntil(r *reader, into *time.Time) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// A day begins at midnight UTC, as in the change window without a zone.
		for _, layout := range []string{time.DateOnly, time.RFC3339} {
			if t, err := time.Parse(layout, n.Value); err == nil {
				*into = t
				return
			}
		}

		r.fail(n, "until: want the first day on which the difference counts again, such as 2027-03-31, "+
			"or an instant such as 2027-03-31T12:00:00Z")
	}
}

// keyCondition is a condition on keys. It reads nothing but the parts of the key and the file's data, so that two requests of
// one key have one answer.
type keyCondition struct{ *expression }

// readFirst returns a reader of the condition that pins keys.
func readFirst(c *compiler, into **keyCondition) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil // a policy's expression replaces the file's
		env, err := c.keyEnv()
		if err != nil {
			c.fail(n, "first: %v", err)
			return
		}

		// The same compiler with other names: bounds and messages are those of all expressions.
		keys := *c
		keys.env = env
		x := keys.compile(n, "first", cel.BoolType)
		if x == nil {
			return
		}
		*into = &keyCondition{x}
	}
}

// keyName is what expressions call the parts of a key, in clear.
const keyName = "key"

// keyOnly is all that conditions on keys can read.
type keyOnly struct{ parts ref.Val }

var _ cel.Activation = (*keyOnly)(nil)

// Parent implements cel.Activation.
func (*keyOnly) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (k *keyOnly) ResolveName(name string) (any, bool) { return k.parts, name == keyName }

// keyOf returns a key for expressions. They read one list of CEL's values: CEL would make them at each access.
func keyOf(parts []string) *keyOnly {
	values := make([]ref.Val, len(parts))
	for i, part := range parts {
		values[i] = types.String(part)
	}
	return &keyOnly{types.NewRefValList(types.DefaultTypeAdapter, values)}
}
