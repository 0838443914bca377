package replay

import (
	"bufio"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// Config names the two sides of a replay, their store, and the outputs.
type Config struct {
	// Policy names the policy in the report and in the store.
	Policy string
	// Sides are the limiters, by role. The candidate is required; an authoritative that is not there allows everything.
	// Limits that come with an event replace theirs.
	Sides [2]algorithms.Side
	// Logged says that the authoritative is what the log says that the limiter of that day did; see Events.Observe. There is no such side.
	Logged bool
	// Texts describe the sides in the report; "" means the short form of a side.
	Texts [2]string
	// Settles says that costs are known after the answer; see Terms. The pair must be a Settler.
	Settles bool
	// Pair judges the checks. Its store must be empty under Policy.
	Pair algorithms.Pair
	// Gate has the thresholds of the gate; zero fields mean their defaults. Steps are all steps of the migration: the verdict is
	// for the first, and Dwell is the least time between two.
	Gate  gate.Config
	Steps []gate.Step
	Dwell time.Duration
	// Live are the spans in which the log has lines, as Presence has them; nil if the events are all of its lines.
	Live []evidence.Span
	// Decisions, if set, receives a line of JSON per check.
	Decisions io.Writer
	// Progress, if set, is called after each batch with the number of checks judged.
	Progress func(judged, of int)
}

// batch is the number of checks in one Evaluate: enough to fill a pipeline to Redis,
// few enough to stay in the processor's cache.
const batch = 256

// Run replays the events, which it sorts, and returns the report. A side that
// cannot decide, because its store fails, ends the replay with an error.
func Run(ctx context.Context, events *Events, cfg Config) (*Report, error) {
	r := newRun(events, cfg)
	if err := r.judgeAll(ctx); err != nil {
		return nil, err
	}
	return r.report(), nil
}

func (r *run) judgeAll(ctx context.Context) error {
	judged := 0
	for events := range r.events.list.batches() {
		if err := r.judge(ctx, events); err != nil {
			return err
		}
		if judged += len(events); r.cfg.Progress != nil {
			r.cfg.Progress(judged, r.events.Len())
		}
	}

	return r.flush()
}

func (r *run) flush() error {
	if err := r.decisions.Flush(); err != nil {
		return fmt.Errorf("replay: write decisions: %w", err)
	}
	return nil
}

// allowedByNone is the answer of an authoritative that is none.
var allowedByNone = algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true, Remaining: -1}}

type run struct {
	events    *Events
	cfg       Config
	checks    []algorithms.Check
	into      [][2]algorithms.Observation
	decisions *bufio.Writer
	lines     decisionLines
	change    func(algorithms.Limit) algorithms.Limit // of the candidate; nil: none
	unsettled settlements
	model     *model // compares the authoritative with the log; nil if the log does not say what the limiter did
	counts
}

func newRun(events *Events, cfg Config) *run {
	events.list.sort()
	r := &run{
		events: events, cfg: cfg,
		checks: make([]algorithms.Check, batch), into: make([][2]algorithms.Observation, batch),
		counts: counts{
			first: !cfg.Sides[algorithms.Authoritative].Present() && !cfg.Logged,
			names: events.keys, keys: make([]keyTally, len(events.keys)),
			causes: &causes{clients: map[uint32]*[len(evidence.AllCauses)]int64{}},
		},
	}

	// The checks of a batch are used again for the next one; policy and sides stay.
	for i := range r.checks {
		r.checks[i] = algorithms.Check{Policy: cfg.Policy, Sides: cfg.Sides}
		if r.first || cfg.Logged {
			r.checks[i].Enforced = algorithms.Candidate // a pair judges that side first
		}
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
	if r.cfg.Settles {
		return r.judgeEach(ctx, events)
	}
	return r.judgeBatch(ctx, events)
}

func (r *run) judgeBatch(ctx context.Context, events []event) error {
	checks := r.fill(events)
	if err := r.cfg.Pair.Evaluate(ctx, checks, r.into); err != nil {
		return fmt.Errorf("replay: %w", err)
	}

	for i, e := range events {
		switch {
		case r.first:
			r.into[i][algorithms.Authoritative] = allowedByNone
		case r.cfg.Logged:
			r.into[i][algorithms.Authoritative] = e.observed.observation()
		}
		if err := r.count(e, &checks[i], &r.into[i]); err != nil {
			return err
		}
	}

	return nil
}

// judgeEach is judge for a policy that settles: the answer to a request may come before the next one.
func (r *run) judgeEach(ctx context.Context, events []event) error {
	for i := range events {
		e := &events[i]
		if err := r.settle(ctx, r.cfg.Pair, e.at); err != nil {
			return err
		}
		if err := r.judgeBatch(ctx, events[i:i+1]); err != nil {
			return err
		}
		if admits(&r.into[0]) {
			r.answers(e, &r.checks[0])
		}
	}
	return nil
}

// fill makes checks of a batch of events. They are valid until the next call.
func (r *run) fill(events []event) []algorithms.Check {
	checks := r.checks[:len(events)]
	for i, e := range events {
		checks[i].Key = r.names[e.key]
		checks[i].Cost = e.cost
		checks[i].At = time.UnixMicro(e.at)
		r.ask(&checks[i], &e)
	}
	return checks
}

// ask gives the sides of a check what its event says of them, and the candidate what the run changes.
func (r *run) ask(c *algorithms.Check, e *event) {
	if e.terms == 0 && r.change == nil {
		return
	}

	// All events have terms or none has, so no limit of the batch before stays.
	sides := r.cfg.Sides
	if e.terms > 0 {
		terms := &r.events.terms[e.terms-1]
		if c.Receipt = nil; terms.Settles {
			c.Receipt = new(algorithms.Receipt)
		}
		for role := range sides {
			sides[role].Limit = terms.Limits[role]
		}
	}

	if r.change != nil {
		candidate := &sides[algorithms.Candidate]
		candidate.Limit = r.change(candidate.Limit)
	}
	for role := range sides {
		if c.Sides[role].Present() {
			c.Sides[role].Limit = sides[role].Limit
		}
	}
}

// answers has a request that was admitted settled when its answer comes.
func (r *run) answers(e *event, c *algorithms.Check) {
	if c.Receipt == nil || !c.Receipt.Any() {
		return
	}
	terms := &r.events.terms[e.terms-1]
	heap.Push(&r.unsettled, algorithms.Settlement{Receipt: c.Receipt, Cost: terms.Final, At: c.At.Add(terms.Delay)})
}

// settle makes the costs final whose answers came until an instant.
func (r *run) settle(ctx context.Context, pair algorithms.Pair, until int64) error {
	for len(r.unsettled) > 0 && r.unsettled[0].At.UnixMicro() <= until {
		settler, ok := pair.(algorithms.Settler)
		if !ok {
			return errors.New("replay: settle: the store of the replay cannot settle")
		}
		one := []algorithms.Settlement{heap.Pop(&r.unsettled).(algorithms.Settlement)}
		var into [1][2]algorithms.Settled
		if err := settler.Settle(ctx, one, into[:]); err != nil {
			return fmt.Errorf("replay: settle: %w", err)
		}
	}
	return nil
}

func (r *run) count(e event, c *algorithms.Check, o *[2]algorithms.Observation) error {
	// A candidate whose expression yields an invalid limit fails for this request only, as
	// it does in production. Any other error would make the whole report wrong.
	for role := range o {
		side := &o[role]
		evaluated := e.terms > 0 && role == int(algorithms.Candidate)
		unsaid := r.cfg.Logged && role == int(algorithms.Authoritative)
		if side.Status == algorithms.Judged || unsaid || evaluated && errors.Is(side.Err, algorithms.ErrLimit) {
			continue
		}
		return fmt.Errorf("replay: request %d, the %s: %w", e.order+1, algorithms.Role(role), side.Err)
	}

	// A request that another policy of the list denies costs nothing here, and is no comparison.
	if e.cost > 0 && !o[0].Blocked && !o[1].Blocked {
		r.compare(e, c, o)
	}
	if r.lines.keys == nil {
		return nil
	}

	_, err := r.decisions.Write(r.lines.line(e, o))
	return err
}

// compare counts what the two sides decided. An event of cost 0 only looks, and is no comparison.
func (r *run) compare(e event, c *algorithms.Check, o *[2]algorithms.Observation) {
	outcome := evidence.Compare(o).Under(r.events.expected(e.terms))
	r.total[outcome]++
	r.noteNever(e.cost, o)

	if e.observed != Unobserved && !r.cfg.Logged {
		if r.model == nil {
			r.model = &model{hours: map[int64]*evidence.Tally{}, keys: map[uint32]*[2]int64{}}
		}
		r.model.observe(e, &o[algorithms.Authoritative])
	}

	m := r.minute(e.at)
	m.Count(outcome, uint64(e.key))
	m.AddExtra(outcome, r.finalCost(&e)-1)
	r.countProtected(m.Unix/evidence.MinutesPerHour, r.names[e.key], outcome)
	if r.causes != nil && (outcome == evidence.NewlyDenied || outcome == evidence.NewlyAllowed) {
		r.causes.note(e.key, r.first, c, o, outcome)
	}

	k := &r.keys[e.key]
	if k.count(outcome) {
		r.denied = append(r.denied, m.Unix)
	}
}

// finalCost is what a request costs in the end.
func (r *run) finalCost(e *event) int64 {
	if r.cfg.Settles && e.terms > 0 && r.events.terms[e.terms-1].Settles {
		return r.events.terms[e.terms-1].Final
	}
	return e.cost
}

// countProtected counts a comparison of a protected key, by the hour as instances do. Events come in order.
func (r *run) countProtected(hour int64, key string, o evidence.Outcome) {
	if !slices.Contains(r.cfg.Gate.Protect, key) {
		return
	}
	if n := len(r.hours); n == 0 || r.hours[n-1].Unix != hour {
		r.hours = append(r.hours, evidence.Hour{Unix: hour})
	}
	r.hours[len(r.hours)-1].CountProtected(key, algorithms.Authoritative, o)
}

func (r *run) report() *Report {
	p := PolicyReport{
		Name:          r.cfg.Policy,
		Authoritative: r.describe(algorithms.Authoritative),
		Candidate:     r.describe(algorithms.Candidate),
		Summary:       r.summary(),
	}
	r.assess(&p)

	p.TopNewlyDenied, p.TopNewlyAllowed = shown(r.harmed((*keyTally).losses)), shown(r.harmed((*keyTally).gains))
	p.CausesNewlyDenied, p.CausesNewlyAllowed = status.CausesOf(r.causes.denied[:]), status.CausesOf(r.causes.allowed[:])
	p.Denied = r.deniedBy()
	p.Hurt = r.hurt()
	p.Observed = r.model.agreement(r.names, r.total.Evaluations())
	p.Clients = r.clients()

	report := &Report{Requests: int64(r.events.Len()), Policies: []PolicyReport{p}}
	if list := &r.events.list; list.len() > 0 {
		first, last := time.UnixMicro(list.at(0).at).UTC(), time.UnixMicro(list.last().at).UTC()
		report.First, report.Last = &first, &last
	}

	return report
}

// describe returns the text of a side: the configured one, or its short form.
func (r *run) describe(role algorithms.Role) string {
	return cmp.Or(r.cfg.Texts[role], shortForm(r.cfg.Sides[role]))
}

func shortForm(s algorithms.Side) string {
	if !s.Present() {
		return "none"
	}
	return s.Algorithm.Name() + ":" + s.Limit.String()
}

// assess judges the candidate at the end of the log, and finds when its steps would have been taken.
func (r *run) assess(p *PolicyReport) {
	e := r.evidence()
	p.Gate = r.verdict(e)
	if len(r.cfg.Steps) == 0 {
		return
	}

	p.firstStep = r.cfg.Steps[0].Name
	taken := gate.Walk(r.cfg.Gate.WithDefaults(), e, r.cfg.Steps, r.cfg.Dwell)
	if len(taken) > 0 {
		p.PassedAt = &taken[0]
	}
	if len(taken) == len(r.cfg.Steps) {
		p.PromotedAt = &taken[len(taken)-1]
	}
}

// evidence is what the log shows. An instance counts as live while the log has lines.
func (r *run) evidence() gate.Evidence {
	e := gate.Evidence{Live: 1, Sides: gate.Sides{First: r.first}}
	if len(r.cfg.Steps) > 0 {
		e.Step = r.cfg.Steps[0]
	}
	if live := r.live(); len(live) > 0 {
		first, last := live[0].From, live[len(live)-1].To
		e.Since, e.Now = time.Unix(first*evidence.SecondsPerMinute, 0), time.Unix(last*evidence.SecondsPerMinute, 0)
		e.History = evidence.History{Minutes: r.minutes, Live: live, Hours: r.hours}
	}
	e.History.Distinct[evidence.KeysDenied], e.Denied = int64(len(r.denied)), r.denied
	e.History.Distinct[evidence.KeysSeen] = int64(len(r.keys))
	return e
}

// live returns when the log has lines. Where it is not given, the events are all of its lines.
func (r *run) live() []evidence.Span {
	if r.cfg.Live != nil {
		return r.cfg.Live
	}
	var p Presence
	for e := range r.events.list.all() {
		p.Add(e.at)
	}
	return p.Stretches().Live
}

// verdict is the gate's at the end of the log.
func (r *run) verdict(e gate.Evidence) gate.Result {
	result := gate.Assess(r.cfg.Gate.WithDefaults(), e)

	// The gate's advice, to send traffic, is for a service.
	if r.total.Evaluations() == 0 {
		result.Reason = "no request of the log is charged by the policy: check its condition, " +
			"and that the log has every field that the policy reads"
	}
	return result
}
