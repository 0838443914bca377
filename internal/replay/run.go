package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Config names the two sides of a replay, their store, and the outputs.
type Config struct {
	// Policy names the policy in the report and in the store.
	Policy string
	// Sides are the limiters, by role. Both are required. Limits that come with an event
	// replace theirs.
	Sides [2]algorithms.Side
	// Texts describe the sides in the report; "" means the short form of a side.
	Texts [2]string
	// Pair judges the charges. Its store must be empty under Policy.
	Pair algorithms.Pair
	// Gate has the thresholds of the gate; zero fields mean their defaults.
	Gate gate.Config
	// Decisions, if set, receives a line of JSON per charge.
	Decisions io.Writer
	// Progress, if set, is called after each batch with the number of charges judged.
	Progress func(judged, of int)
}

// batch is the number of charges in one Evaluate: enough to fill a pipeline to Redis,
// few enough to stay in the processor's cache.
const batch = 256

// Run replays the events, which it sorts, and returns the report. A side that
// cannot decide, because its store fails, ends the replay with an error.
func Run(ctx context.Context, events *Events, cfg Config) (*Report, error) {
	events.sort()
	r := newRun(events, cfg)

	for from := 0; from < len(events.list); from += batch {
		to := min(from+batch, len(events.list))
		if err := r.judge(ctx, events.list[from:to]); err != nil {
			return nil, err
		}
		if cfg.Progress != nil {
			cfg.Progress(to, len(events.list))
		}
	}

	if err := r.decisions.Flush(); err != nil {
		return nil, fmt.Errorf("replay: write decisions: %w", err)
	}

	return r.report(), nil
}

type run struct {
	events    *Events
	cfg       Config
	charges   []algorithms.Charge
	into      [][2]algorithms.Observation
	decisions *bufio.Writer
	lines     decisionLines
	total     divergence.Tally
	keys      []keyTally
	denied    []int64 // for each key that the authoritative denied, the minute of its first denial
	minutes   []divergence.Minute
	timeline  timeline
}

type keyTally struct{ denied, newlyDenied, newlyAllowed int64 }

func newRun(events *Events, cfg Config) *run {
	r := &run{
		events: events, cfg: cfg,
		charges: make([]algorithms.Charge, batch), into: make([][2]algorithms.Observation, batch),
		keys: make([]keyTally, len(events.keys)), timeline: newTimeline(events.list),
	}

	// The charges of a batch are used again for the next one; policy and sides stay.
	for i := range r.charges {
		r.charges[i] = algorithms.Charge{Policy: cfg.Policy, Sides: cfg.Sides}
	}

	// Without a writer for decisions no key is encoded, and count makes no line.
	out := cfg.Decisions
	if out == nil {
		out = io.Discard
	} else {
		r.lines = newDecisionLines(events.keys)
	}

	r.decisions = bufio.NewWriterSize(out, 1<<16)
	return r
}

func (r *run) judge(ctx context.Context, events []event) error {
	charges := r.charges[:len(events)]
	for i, e := range events {
		charges[i].Key = r.events.keys[e.key]
		charges[i].Cost = e.cost
		charges[i].At = time.UnixMicro(e.at)

		// All events have terms or none has, so no limit of the batch before stays.
		if e.terms > 0 {
			for role, limit := range r.events.terms[e.terms-1].Limits {
				charges[i].Sides[role].Limit = limit
			}
		}
	}

	if err := r.cfg.Pair.Evaluate(ctx, charges, r.into); err != nil {
		return fmt.Errorf("replay: %w", err)
	}

	for i, e := range events {
		if err := r.count(e, &r.into[i]); err != nil {
			return err
		}
	}

	return nil
}

func (r *run) count(e event, o *[2]algorithms.Observation) error {
	// A candidate whose expression yields an invalid limit fails for this request only, as
	// it does in production. Any other error would make the whole report wrong.
	for role := range o {
		side := &o[role]
		evaluated := e.terms > 0 && role == int(algorithms.Candidate)
		if side.Status == algorithms.Judged || evaluated && errors.Is(side.Err, algorithms.ErrLimit) {
			continue
		}
		return fmt.Errorf("replay: charge %d of %d, the %s: %w", e.order+1, len(r.events.list), algorithms.Role(role), side.Err)
	}

	outcome := divergence.Compare(o).Under(r.events.expected(e.terms))
	r.total[outcome]++
	r.timeline.add(e.at, outcome)

	m := r.minute(e.at)
	m.Count(outcome, uint64(e.key))
	if r.keys[e.key].count(outcome) {
		r.denied = append(r.denied, m.Unix)
	}

	if r.lines.keys == nil {
		return nil
	}

	_, err := r.decisions.Write(r.lines.line(e, o))
	return err
}

// count reports whether the authoritative denied the key for the first time.
func (k *keyTally) count(o divergence.Outcome) (first bool) {
	before := k.denied
	switch o {
	case divergence.AgreeDeny, divergence.ExpectedAllowed:
		k.denied++
	case divergence.NewlyDenied:
		k.newlyDenied++
	case divergence.NewlyAllowed:
		k.denied++
		k.newlyAllowed++
	}

	return before == 0 && k.denied > 0
}

// minute returns the counts of an event's minute. Events come in order.
func (r *run) minute(at int64) *divergence.Minute {
	unix := time.UnixMicro(at).Unix() / divergence.SecondsPerMinute
	if n := len(r.minutes); n == 0 || r.minutes[n-1].Unix != unix {
		r.minutes = append(r.minutes, divergence.Minute{Unix: unix})
	}
	return &r.minutes[len(r.minutes)-1]
}

// assess judges the candidate at the end of the log and at the end of every hour
// before it. An instance counts as live from the first to the last line of the log.
func (r *run) assess(p *PolicyReport) {
	cfg := r.cfg.Gate.WithDefaults()
	e := gate.Evidence{Live: 1}

	if n := len(r.minutes); n > 0 {
		first, last := r.minutes[0].Unix, r.minutes[n-1].Unix
		e.Since, e.Now = time.Unix(first*divergence.SecondsPerMinute, 0), time.Unix((last+1)*divergence.SecondsPerMinute, 0)
		e.History = divergence.History{Minutes: r.minutes, Live: []divergence.Span{{From: first, To: last + 1}}}
	}
	e.History.Distinct[divergence.KeysDenied] = int64(len(r.denied))

	p.Gate = gate.Assess(cfg, e)
	p.Course = gate.Follow(cfg, e, r.denied)
	p.Proposed = gate.Propose(cfg, e)
}
