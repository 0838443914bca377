package policies

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
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

// promotion returns a reader that overrides the fields that a section names, so that a
// policy's section starts from the file's. Whether the gate can judge by the numbers is
// for a Check to say.
func (c *compiler) promotion(into *Promotion) func(*yaml.Node) {
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
			"expected":        {read: c.expected(&into.expected)},
			"protect":         {read: c.protect(&into.Protect)},

			// The steps, and when they are taken.
			"mode":          {read: c.choice("mode", &into.Mode, "manual", "automatic")},
			"canary":        {read: c.canary(&into.Canary)},
			"dwell":         {read: c.minutes("dwell", &into.Dwell)},
			"change_window": {read: c.changeWindow(into)},
			"first":         {read: c.first(&into.first)},
		})
	}
}

// canary returns a reader of the canary's percentages. They rise: a step is a step
// forward, and the way back is a rollback.
func (r *reader) canary(into *[]float64) func(*yaml.Node) {
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

// changeWindow returns a reader of the part of the week in which stages may move
// forward. A window over midnight is two windows, which the gate does not have.
func (r *reader) changeWindow(into *Promotion) func(*yaml.Node) {
	return func(n *yaml.Node) {
		const unread = -1
		from, to := time.Duration(unread), time.Duration(unread)
		r.mapping(n, "change_window", map[string]field{
			"days": {read: r.days(&into.ChangeDays), required: true},
			"from": {read: r.timeOfDay("from", &from), required: true},
			"to":   {read: r.timeOfDay("to", &to), required: true},
			"zone": {read: r.zone(&into.ChangeZone)},
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

func (r *reader) days(into *[]time.Weekday) func(*yaml.Node) {
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

// timeOfDay returns a reader of a time, stored since midnight.
func (r *reader) timeOfDay(what string, into *time.Duration) func(*yaml.Node) {
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

func (r *reader) zone(into **time.Location) func(*yaml.Node) {
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

// Expected returns the differences that are declared for a request at its time. It must
// be asked when the request is charged, because the outcome may be known only when the
// request is gone. A condition that fails declares nothing: the difference
// then counts against the candidate, which is the safe side.
func (p *Policy) Expected(ctx context.Context, r *Request) (e algorithms.Expected) {
	for _, x := range p.Promotion.expected {
		if !r.Time.Before(x.until) {
			continue
		}

		// One condition that fails does not take the others away.
		v, err := x.when.eval(p.evaluation(ctx, r))
		if err != nil || v != types.True {
			continue
		}
		e.NewlyDenied = e.NewlyDenied || x.direction == newlyDenied
		e.NewlyAllowed = e.NewlyAllowed || x.direction == newlyAllowed
	}
	return e
}

// Declarations describes the declared differences, one a line: "newly_denied until
// 2027-03-31, owner team-batch, when variables.tenant == ...".
func (p *Policy) Declarations() []string {
	list := make([]string, len(p.Promotion.expected))
	for i, x := range p.Promotion.expected {
		condition := strings.TrimSpace(x.when.source)
		list[i] = fmt.Sprintf("%s until %s, owner %s, when %s", x.direction, day(x.until), humanize.Printable(x.owner), condition)
	}
	return list
}

// day writes the end of a declaration as briefly as the file can have it.
func day(t time.Time) string {
	if t.Equal(t.Truncate(24 * time.Hour)) {
		return t.UTC().Format(time.DateOnly)
	}
	return t.Format(time.RFC3339)
}

// expected returns a reader of the declared differences.
func (c *compiler) expected(into *[]*expectation) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil // a policy's list replaces the file's
		items := c.items(n, "expected")
		if len(items) > maxExpected {
			c.fail(n, "expected: %d differences: at most %d", len(items), maxExpected)
			return
		}

		for _, item := range items {
			*into = append(*into, c.expectation(item))
		}
	}
}

// expectation reads one declared difference, and warns if it has ended: the file then
// says that a difference is wanted which counts against the candidate.
func (c *compiler) expectation(n *yaml.Node) *expectation {
	x := &expectation{}
	untilAt := n
	c.mapping(n, "an expected difference", map[string]field{
		"when":      {read: func(n *yaml.Node) { x.when = c.compile(n, "when", cel.BoolType) }, required: true},
		"direction": {read: c.choice("direction", &x.direction, newlyDenied, newlyAllowed), required: true},
		"until": {required: true, read: func(n *yaml.Node) {
			untilAt = n
			c.until(&x.until)(n)
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

// until returns a reader of the day, or the instant, at which a declaration ends.
func (r *reader) until(into *time.Time) func(*yaml.Node) {
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
