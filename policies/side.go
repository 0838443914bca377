package policies

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
)

// Side is one of a policy's two limiters as the file describes it: one of our
// algorithms with its numbers, a custom limiter by name, or none. Limit and burst are in units
// of cost. Only a custom side may lack a limit and a window, because it may know its own.
type Side struct {
	// ID names the side's part of a key's record; "" means the algorithm's name, in
	// another store algorithm@store, and where the side is synchronized algorithm@store+sync.
	ID string
	Residence
	// Algorithm is nil for a custom side, and for none.
	Algorithm algorithms.Algorithm
	// Limiter is the name of a custom side, which the program resolves. Its operator
	// counts Revision up when the limiter's behaviour changes.
	Limiter, Revision string
	// PerProcess says of a custom side that each instance has such a budget of its own, as a limiter in memory
	// has: the service admits their sum.
	PerProcess bool

	limit, burst number // burst 0: not given
	limited      bool   // a limit is given
	window       time.Duration
	adaptive     *adaptation
}

// none is how a file says that there is no limit today.
const none = "none"

// None reports whether the side is an authoritative that allows everything: the candidate is a first limit. It
// cannot fail and keeps no record, so that it is asked nowhere.
func (s *Side) None() bool { return s.Algorithm == nil && s.Limiter == "" }

// Custom reports whether the side is a limiter of the user's.
func (s *Side) Custom() bool { return s.Limiter != "" }

// ofLog is how a file names what a log says that another program's limiter did.
const ofLog = "log"

// Logged reports whether the side is the answers of a log, which shadowlimit follow and replay read; it is a custom side to a service.
func (s *Side) Logged() bool { return s.Limiter == ofLog }

// Name returns the algorithm's name, the custom limiter's, or none.
func (s *Side) Name() string {
	switch {
	case s.Custom():
		return s.Limiter
	case s.None():
		return none
	}
	return s.Algorithm.Name()
}

// Bare is the side without its limit. Two sides in different stores may have one
// algorithm: the store is part of the default id.
func (s *Side) Bare() algorithms.Side {
	id := s.ID
	switch {
	case id == "" && s.Sync > 0:
		id = s.Algorithm.Name() + "@" + s.Store + "+sync"
	case id == "" && s.Store != "":
		id = s.Algorithm.Name() + "@" + s.Store
	}
	return algorithms.Side{ID: id, Algorithm: s.Algorithm}
}

// constant reports whether the side has the same limit for every request.
func (s *Side) constant() bool {
	return s.limit.expression == nil && s.burst.expression == nil
}

// Constant returns the side's limit, if it is the same for every request.
func (s *Side) Constant() (limit algorithms.Limit, constant bool) {
	if !s.constant() {
		return algorithms.Limit{}, false
	}
	return algorithms.Limit{Requests: s.limit.constant, Window: s.window, Burst: s.burst.constant}, true
}

// Usual returns the side's limit as far as it is the same for every request: only the window, where
// an expression decides the rest. It is zero for a custom limiter without a limit.
func (s *Side) Usual() algorithms.Limit {
	limit, constant := s.Constant()
	if !constant {
		limit.Window = s.window
	}
	return limit
}

// check writes the side of a check, or returns the error of its limit.
func (s *Side) check(w *evaluation, into *algorithms.Side) (err error) {
	// Most limits are constant, and have been validated when the file was loaded.
	*into = s.Bare()
	if s.constant() {
		l := &into.Limit
		l.Requests, l.Window, l.Burst = s.limit.constant, s.window, s.burst.constant
		return nil
	}
	into.Limit, err = s.limitOf(w)
	return err
}

// limitOf returns the side's limit for a request. On an error, which may be one of the
// algorithm's Validate, it is the zero limit, which every algorithm refuses.
func (s *Side) limitOf(w *evaluation) (algorithms.Limit, error) {
	requests, err := s.limit.value(w)
	if err != nil {
		return algorithms.Limit{}, err
	}
	burst, err := s.burst.value(w)
	if err != nil {
		return algorithms.Limit{}, err
	}

	// Constants were validated when the file was loaded.
	l := algorithms.Limit{Requests: requests, Window: s.window, Burst: burst}
	if s.Custom() || s.constant() {
		return l, nil
	}
	if err := s.Algorithm.Validate(l); err != nil {
		return algorithms.Limit{}, fmt.Errorf("policies: %w", err)
	}
	return l, nil
}

// LongestDelay returns how long an algorithm that delays holds an admitted check of cost
// 1 at most, (burst-1) * window/limit; 0 for others and where expressions decide. The
// backlog before an admitted check is at most burst-1, and each unit of it takes window/limit.
func (s *Side) LongestDelay() time.Duration {
	limit, constant := s.Constant()
	if !constant {
		return 0
	}
	return algorithms.LongestDelay(s.Algorithm, limit)
}

// LargestLog returns the bytes that a key's log may take in Redis, 0 for other algorithms. A log has an entry for each
// admitted request, so the limit bounds it; where an expression decides the limit, only the bound of a log does.
func (s *Side) LargestLog() int64 {
	if _, ok := s.Algorithm.(algorithms.SlidingWindowLog); !ok {
		return 0
	}

	entries := int64(algorithms.DefaultMaxEntries)
	if s.constant() {
		entries = min(entries, s.limit.constant)
	}
	return entries * algorithms.LogEntryBytes
}

// Adaptive returns the rule by which the side's limit follows the service, nil if it is always the whole.
func (s *Side) Adaptive() *adaptive.Rule {
	if s.adaptive == nil {
		return nil
	}
	return &s.adaptive.rule
}

// AtLevel returns the limit of an adaptive side at a level. A level from elsewhere may be out of bounds, for a fleet may lie: it is the
// nearest one that there is.
func (s *Side) AtLevel(level adaptive.Level) algorithms.Limit {
	return s.adaptive.limits[min(max(level, 1), adaptive.Full)]
}

func (s *Side) limitInputs() inputs {
	all := inputs{}
	if s == nil {
		return all
	}

	// A window cannot be an expression, so these two are all that a request can change.
	for _, x := range []*expression{s.limit.expression, s.burst.expression} {
		if x != nil {
			maps.Copy(all, x.inputs)
		}
	}
	return all
}

// String writes the side in the short form of the command line, expressions as
// they stand: token_bucket:data.overrides[...]/1m:burst=20.
func (s *Side) String() string {
	switch {
	case s.Custom():
		text := fmt.Sprintf("%s (custom limiter, revision %q)", s.Limiter, s.Revision)
		if s.PerProcess {
			text += ", " + s.limitText() + " in each instance"
		}
		return text
	case s.None():
		return none
	}

	// The parts have the order of the short form, so that a constant side can be pasted behind --from.
	text := s.Algorithm.Name() + ":" + s.limit.text() + "/" + algorithms.FormatWindow(s.window)
	if burst := s.burst.text(); burst != "0" {
		text += ":burst=" + burst
	}

	// The rest is no part of the short form, and for readers alone.
	if s.Store != "" {
		text += " in " + s.Store
	}
	if s.adaptive != nil {
		text += " " + s.adaptive.String()
	}
	if s.Sync > 0 {
		text += ", synchronized every " + algorithms.FormatWindow(s.Sync)
	}
	return text
}

// limitText writes the limit as explain does, expressions as they stand: 10 per 1s, burst 20.
func (s *Side) limitText() string {
	text := s.limit.text() + " per " + algorithms.FormatWindow(s.window)
	if burst := s.burst.text(); burst != "0" {
		text += ", burst " + burst
	}
	return text
}

// identity is the side's share of the fingerprint: a change of it makes another side. Each
// field has its place, even if empty, so that no text moves from one field to the next.
func (s *Side) identity() string {
	// The names of an algorithm and of a custom limiter have places of their own, so that neither is taken for the other.
	name := ""
	if !s.Custom() {
		name = s.Name()
	}
	fields := []string{
		s.ID, name, s.Limiter, s.Revision, s.limit.text(), s.burst.text(), s.window.String(), s.Store,
	}
	if s.adaptive != nil {
		fields = append(fields, s.adaptive.String())
	}
	if s.Sync > 0 {
		fields = append(fields, "sync "+s.Sync.String())
	}
	if s.PerProcess {
		fields = append(fields, "per process")
	}
	return strings.Join(fields, "\x00")
}

// readSide returns a reader of a side. It stores nothing if there is an error.
func readSide(c *compiler, role string, into **Side) func(*yaml.Node) {
	return func(n *yaml.Node) {
		before := c.errors()
		if n.Kind == yaml.ScalarNode {
			readNoSide(c, n, role, into)
			return
		}

		side, algorithm := &Side{Revision: "1"}, ""
		algorithmAt := n // for the message about an unknown name
		c.mapping(n, role, map[string]field{
			// The limiter: one of ours, or one that the program has.
			"id": {read: c.text("id", &side.ID)},
			"algorithm": {read: func(n *yaml.Node) {
				algorithmAt = n
				c.text("algorithm", &algorithm)(n)
			}},
			"limiter":     {read: c.text("limiter", &side.Limiter)},
			"revision":    {read: c.text("revision", &side.Revision)},
			"per_process": {read: c.truth("per_process", &side.PerProcess)},

			// How much it admits. A limit of 0 denies every request, so that one that is left out is another thing.
			"limit": {read: func(n *yaml.Node) {
				side.limited = true
				c.number("limit", &side.limit, 0)(n)
			}},
			"burst":  {read: c.number("burst", &side.burst, 1)},
			"window": {read: c.duration("window", &side.window)},

			// Where its state is, and whether the limit gives way while the service suffers.
			"store":    {read: readStore(c.reader, side)},
			"adaptive": {read: readAdaptive(c, &side.adaptive)},
		})

		// A wrong name is reported with the fields that could not be read, for it has nothing
		// to do with them. What follows it would fail for any of these alone.
		if algorithm != "" && !side.Custom() {
			readAlgorithm(c.reader, algorithmAt, role, algorithm, side)
		}
		if c.errors() > before {
			return
		}

		checkKind(c, n, role, side, algorithm != "")

		// What follows takes the side for valid.
		if c.errors() == before {
			checkAdaptive(c.reader, n, role, side)
		}
		if c.errors() == before {
			*into = side
		}
	}
}

// Parts of messages about a side that is one word, or that should be.
const (
	sideHint  = "{ algorithm: gcra, limit: 100, window: 1m }"
	noneAlone = "write authoritative: none, without fields, where there is no limit today"
)

// readNoSide reads a side that is one word: only an authoritative can be none.
func readNoSide(c *compiler, n *yaml.Node, role string, into **Side) {
	switch {
	case n.Value == none && role == algorithms.Authoritative.String():
		*into = &Side{}
	case n.Value == none:
		c.fail(n, "%s: only the authoritative can be none: leave the %s out, or write a limiter such as %s", role, role, sideHint)
	case role == algorithms.Authoritative.String():
		c.fail(n, "%s: want a mapping such as %s, or none where there is no limit today", role, sideHint)
	default:
		c.fail(n, "%s: want a mapping such as %s", role, sideHint)
	}
}

// checkKind refuses what a side of its kind cannot have: an algorithm of ours, which is named, or a limiter of the program's.
func checkKind(c *compiler, n *yaml.Node, role string, side *Side, named bool) {
	// Each kind of side has its own rules. The first broken one is enough, because the next is about a side of that kind.
	at := placesOf(n)
	switch {
	case side.Limiter == none:
		c.fail(at.orNone("limiter"), "%s: limiter: none is no name of a limiter: "+noneAlone, role)
	case side.Custom() == named:
		c.fail(n, "%s: want either an algorithm or a limiter: algorithm: gcra, or limiter: legacy for one that the program has", role)
	case side.PerProcess && !side.Custom():
		c.fail(at.orNone("per_process"), "%s: per_process is for a custom limiter: one of our own algorithms has one budget for all "+
			"instances that share its store: leave it out", role)
	case side.PerProcess && (!side.limited || side.window == 0):
		c.fail(at.orNone("per_process"), "%s: per_process needs the limit of one instance: write limit and window, such as limit: 10, window: 1s", role)
	case !side.Custom():
		checkLimit(c.reader, n, role, side)
	case side.limited && side.limit == number{}:
		c.fail(n, "%s: a limit of 0 is for our own algorithms: a custom limiter that is left without a limit has none", role)
	case side.Store != "" || side.Sync > 0:
		c.fail(n, "%s: a custom limiter keeps its own state: leave out the store", role)
	}
}

// readAlgorithm looks an algorithm up by its name.
func readAlgorithm(r *reader, n *yaml.Node, role, name string, into *Side) {
	if name == none {
		r.fail(n, "%s: none is no algorithm: "+noneAlone, role)
		return
	}
	a, err := algorithms.ByName(name)
	if err != nil {
		r.fail(n, "%s: %s", role, withoutPackage(err))
		return
	}
	into.Algorithm = a
}

// checkLimit validates the limit as far as it is known before any request.
func checkLimit(r *reader, n *yaml.Node, role string, s *Side) {
	switch {
	case !s.limited:
		r.fail(n, "%s: %s needs a limit, such as 100", role, s.Algorithm.Name())
		return
	case s.window == 0:
		r.fail(n, "%s: %s needs a window, such as 1m", role, s.Algorithm.Name())
		return
	}

	// An expression is not known yet. In its place stands the number that Validate accepts
	// if it accepts any, so that what fails here would fail for every request.
	l := algorithms.Limit{Requests: s.limit.constant, Window: s.window, Burst: s.burst.constant}
	if s.limit.expression != nil {
		l.Requests = max(1, l.Burst)
	}
	if s.burst.expression != nil {
		l.Burst = 1
	}
	if err := s.Algorithm.Validate(l); err != nil {
		r.fail(refusedField(n, err), "%s: %s", role, whyRefused(err))
		return
	}
	checkSync(r, n, role, s)
}

// whyRefused returns the reason for which a limit is refused. The file has the limit before it, and writes a burst as a field.
func whyRefused(err error) string {
	text := withoutPackage(err)
	if _, why, refused := strings.Cut(text, algorithms.ErrLimit.Error()+": "); refused {
		text = why
	}
	return strings.ReplaceAll(text, "burst=", "burst: ")
}

// refusedField returns the field of a side that the reason is about, the whole side where it names none that the file has.
func refusedField(n *yaml.Node, err error) *yaml.Node {
	at := placesOf(n)
	first, _, _ := strings.Cut(whyRefused(err), " ")
	field := map[string]string{"burst": "burst", "requests": "limit", "window": "window"}[first]
	if at[field] != nil {
		return at[field]
	}
	return n
}

// withoutPackage returns the text of an error without the package that it came from:
// in a message about a file the package says nothing.
func withoutPackage(err error) string {
	text := strings.TrimPrefix(err.Error(), "policies: ")
	return strings.TrimPrefix(text, "algorithms: ")
}

// Residence is where a side keeps its state.
type Residence struct {
	// Store names another Redis that keeps the side's state, which the program
	// resolves; "" means the service's own.
	Store string
	// Sync, above 0, has the side decided in the process, which exchanges what it has admitted with the store so often.
	Sync time.Duration
}

// Bounds of a synchronized side's interval.
const (
	leastSync = 10 * time.Millisecond // more often would cost a Redis more than it spares it
	mostSync  = 10 * time.Second
	// leastIntervals is how many intervals the window must have. All instances but one overshoot by what they admit in one
	// interval, so in a shorter window the limit would mean little.
	leastIntervals = 10
)

// readStore returns a reader of where a side keeps its state: the name of a Redis, or a mapping for a side that is decided in the
// process and exchanged behind.
func readStore(r *reader, side *Side) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// A name alone is a strict side, which every file before had.
		if n.Kind != yaml.MappingNode {
			r.name("store", &side.Store)(n)
			return
		}

		before := r.errors()
		r.mapping(n, "store", map[string]field{
			"redis": {read: r.name("redis", &side.Store)},
			"sync":  {read: r.duration("sync", &side.Sync)},
		})
		if r.errors() > before {
			return
		}

		// A mapping without an interval may have lost it: it is not taken for a strict side.
		switch {
		case side.Sync == 0:
			r.fail(n, "store: want sync, such as { redis: NAME, sync: 100ms }, or the name alone for a strict side")
		case side.Sync < leastSync || side.Sync > mostSync:
			r.fail(placesOf(n).orNone("sync"), "sync: want a duration from %s to %s",
				algorithms.FormatWindow(leastSync), algorithms.FormatWindow(mostSync))
		}
	}
}

// whyNotSynchronized is the reason for which an algorithm cannot be synchronized.
func whyNotSynchronized(a algorithms.Algorithm) string {
	if algorithms.TraitsOf(a).Shape == algorithms.SlidingLog {
		return ": each of its entries would have to be sent"
	}
	return " in this version"
}

// checkSync refuses a synchronized side whose consumption cannot be exchanged, or whose window is too short for its interval.
func checkSync(r *reader, n *yaml.Node, role string, s *Side) {
	// The first reason is enough: each asks for another choice, and the next may be about that.
	at := placesOf(n).orNone("store")

	switch {
	case s.Sync == 0:
	case !algorithms.Synchronizable(s.Algorithm):
		r.fail(at, "%s: %s cannot be synchronized%s; take sliding_window_counter", role, s.Algorithm.Name(), whyNotSynchronized(s.Algorithm))
	case s.adaptive != nil:
		r.fail(at, "%s: a synchronized side is not adaptive in this version: leave out adaptive, or leave out sync", role)
	case s.window < leastIntervals*s.Sync:
		r.fail(at, "%s: the window must be at least %d times sync: an instance learns only then what the others have admitted",
			role, leastIntervals)
	}
}
