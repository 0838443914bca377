package policies

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Side is one of a policy's two limiters as the file describes it: an algorithm
// of ours with its numbers, or a foreign limiter by name.
type Side struct {
	// ID names the side's part of a key's record; "" means the algorithm's name, and
	// in another store algorithm@store.
	ID string
	// Store names another Redis that keeps the side's state, which the program
	// resolves; "" means the service's own.
	Store string
	// Algorithm is nil for a foreign side.
	Algorithm algorithms.Algorithm
	// Limiter is the name of a foreign side, which the program resolves, and
	// Revision what its operator counts up when its behaviour changes.
	Limiter, Revision string

	limit, burst number
	window       time.Duration
}

// Foreign reports whether the side is a limiter of the user's own.
func (s *Side) Foreign() bool { return s.Limiter != "" }

// Name returns the algorithm's name or the foreign limiter's.
func (s *Side) Name() string {
	if s.Foreign() {
		return s.Limiter
	}
	return s.Algorithm.Name()
}

// limitOf returns the side's limit for a request. It is the zero limit on an error,
// which may be that of the algorithm's Validate.
func (s *Side) limitOf(w *evaluation) (algorithms.Limit, error) {
	requests, err := s.limit.value(w)
	if err != nil {
		return algorithms.Limit{}, err
	}
	burst, err := s.burst.value(w)
	if err != nil {
		return algorithms.Limit{}, err
	}
	l := algorithms.Limit{Requests: requests, Window: s.window, Burst: burst}
	if !s.Foreign() && (s.limit.expression != nil || s.burst.expression != nil) {
		if err := s.Algorithm.Validate(l); err != nil {
			return algorithms.Limit{}, fmt.Errorf("policies: %w", err)
		}
	}
	return l, nil
}

// LongestDelay returns how long a leaky bucket holds an admitted charge of cost 1
// back at most, (burst-1) * window/limit; 0 for others and where expressions
// decide.
func (s *Side) LongestDelay() time.Duration {
	if !algorithms.TraitsOf(s.Algorithm).Delays || s.limit.expression != nil || s.burst.expression != nil {
		return 0
	}
	return time.Duration(float64(s.burst.constant-1) * float64(s.window) / float64(s.limit.constant))
}

// String writes the side in the short form of the command line, expressions as
// they stand: token_bucket:data.overrides[...]/1m:burst=20.
func (s *Side) String() string {
	if s.Foreign() {
		return fmt.Sprintf("%s (own limiter, revision %q)", s.Limiter, s.Revision)
	}
	text := s.Algorithm.Name() + ":" + s.limit.text() + "/" + algorithms.FormatWindow(s.window)
	if b := s.burst.text(); b != "0" {
		text += ":burst=" + b
	}
	if s.Store != "" {
		text += " in " + s.Store
	}
	return text
}

// identity is what makes the side another one when it changes.
func (s *Side) identity() string {
	name := ""
	if !s.Foreign() {
		name = s.Algorithm.Name()
	}
	return strings.Join([]string{s.ID, name, s.Limiter, s.Revision, s.limit.text(), s.burst.text(), s.window.String(), s.Store}, "\x00")
}

// sideOf returns a reader of a side.
func (d *document) sideOf(env *cel.Env, role string, into **Side) func(*yaml.Node) {
	return func(n *yaml.Node) {
		before := len(d.List)
		side, algorithm := &Side{Revision: "1"}, ""
		at := n // of the algorithm's name
		d.mapping(n, role, map[string]field{
			"id": {read: d.text("id", &side.ID)},
			"algorithm": {read: func(n *yaml.Node) {
				at = n
				d.text("algorithm", &algorithm)(n)
			}},
			"limiter":  {read: d.text("limiter", &side.Limiter)},
			"revision": {read: d.text("revision", &side.Revision)},
			"limit":    {read: d.number(env, "limit", &side.limit, 1)},
			"burst":    {read: d.number(env, "burst", &side.burst, 1)},
			"window":   {read: d.span("window", &side.window)},
			"store":    {read: d.name("store", &side.Store)},
			"adaptive": {read: d.unbuilt("adaptive")},
		})
		if len(d.List) == before {
			d.checkSide(n, at, role, algorithm, side)
		}
		if len(d.List) == before {
			*into = side
		}
	}
}

func (d *document) checkSide(n, at *yaml.Node, role, algorithm string, s *Side) {
	if s.Foreign() == (algorithm != "") {
		d.fail(n, "%s: want either an algorithm or a limiter", role)
		return
	}
	if s.Foreign() {
		if s.Store != "" {
			d.fail(n, "%s: a limiter of your own keeps its state itself: leave out the store", role)
		}
		return
	}
	a, err := algorithms.ByName(algorithm)
	if err != nil {
		d.fail(at, "%s: no algorithm %q: %s", role, algorithm, remedy(strings.ReplaceAll(algorithm, "-", "_"), algorithmNames()))
		return
	}
	s.Algorithm = a
	switch {
	case s.limit == number{}:
		d.fail(n, "%s: %s needs a limit, such as 100", role, algorithm)
	case s.window == 0:
		d.fail(n, "%s: %s needs a window, such as 1m", role, algorithm)
	default:
		d.checkLimit(n, role, s)
	}
}

func algorithmNames() []string {
	names := make([]string, len(algorithms.All))
	for i, a := range algorithms.All {
		names[i] = a.Name()
	}
	return names
}

// checkLimit validates what is known of the limit before any request.
func (d *document) checkLimit(n *yaml.Node, role string, s *Side) {
	l := algorithms.Limit{Requests: s.limit.constant, Window: s.window, Burst: s.burst.constant}
	if s.limit.expression != nil {
		l.Requests = max(1, l.Burst) // a number that fits if any does
	}
	if s.burst.expression != nil {
		l.Burst = 1
	}
	if err := s.Algorithm.Validate(l); err != nil {
		d.fail(n, "%s: %s", role, plain(err))
	}
}

// plain leaves out the package that an error came from.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "algorithms: ") }
