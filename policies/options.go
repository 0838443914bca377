package policies

import (
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// option is a field of a side that is an option of its algorithm.
type option struct {
	// name stands in files, and in a short form.
	name string
	into func(from algorithms.Options, into *algorithms.Options) // copies it
}

// options are all of them, in the order of the short form. A window is both: a length belongs to the limit, a part of the
// calendar is an option.
var options = []option{
	{"phase", func(from algorithms.Options, into *algorithms.Options) { into.Phase = from.Phase }},
	{"count_denied", func(from algorithms.Options, into *algorithms.Options) { into.CountDenied = from.CountDenied }},
	{"refill", func(from algorithms.Options, into *algorithms.Options) { into.Refill = from.Refill }},
	{"forget", func(from algorithms.Options, into *algorithms.Options) { into.Forget = from.Forget }},
	{"window", func(from algorithms.Options, into *algorithms.Options) { into.Calendar = from.Calendar }},
}

// checkOptions refuses options that have no meaning for the side, each at its own place. The limit has none, and is valid.
func (r *reader) checkOptions(n *yaml.Node, role string, s *Side, l algorithms.Limit) {
	// Each option is tried alone, so that its own line has the message.
	at := placesOf(n)
	before := r.errors()
	for _, o := range options {
		if at[o.name] == nil {
			continue
		}
		with := l
		o.into(s.options, &with.Options)
		if err := s.Algorithm.Validate(with); err != nil {
			r.fail(at[o.name], "%s: %s", role, whyRefused(err))
		}
	}

	// Options that are valid each for itself may exclude each other.
	l.Options = s.options
	if err := s.Algorithm.Validate(l); err != nil && r.errors() == before {
		r.fail(n, "%s: %s", role, whyRefused(err))
	}
}

// foreignOptions refuses options of a limiter that this project does not know.
func (r *reader) foreignOptions(n *yaml.Node, role string, s *Side) {
	at := placesOf(n)

	// The limiter would be given a limit without them, and its model would be another one than the file says.
	for _, o := range options {
		switch {
		case at[o.name] == nil:
		case o.name != "window":
			r.fail(at[o.name], "%s: %s is an option of our own algorithms: leave it out", role, o.name)
		case s.options.Calendar != algorithms.NoCalendar:
			r.fail(at[o.name], "%s: a window of the calendar is for our own algorithms: give the longest, %s", role,
				algorithms.FormatWindow(s.window))
		}
	}
}

// period returns a reader of a window: a duration, or a unit of the calendar, which is an option.
func (r *reader) period(what string, into *Side) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// A unit of the calendar has a longest length, by which the limit's numbers are bounded.
		window, calendar, err := algorithms.ParsePeriod(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || window <= 0 {
			r.fail(n, "%s: want %s, or, of a fixed_window, week, month or year", what, aDuration)
			return
		}
		into.window, into.options.Calendar = window, calendar
	}
}

// phase returns a reader of where windows begin.
func (r *reader) phase(what string, into *algorithms.Phase) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// A word that is none of these has its message already, and leaves the phase as it is.
		name := ""
		r.choice(what, &name, "epoch", "first", "hash")(n)
		if p, err := algorithms.ParsePhase(name); err == nil {
			*into = p
		}
	}
}

// yes returns a reader of true or false.
func (r *reader) yes(what string, into *bool) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			r.fail(n, "%s: want true or false", what)
			return
		}
		*into = n.Value == "true"
	}
}
