package shadow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/fleet"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Config configures a Harness. New copies it; its maps must not be changed afterwards.
type Config struct {
	// File is the policy file. It is read again every second, and used when it has changed
	// and is valid; see Harness.Reload. Either File or Policies is required.
	File string
	// Policies take the place of a File that is watched; see policies.LoadFile.
	Policies *policies.Set
	// Redis keeps limits, stages and evidence for all instances of the same name. Without
	// it each process has its own. Its options should be those of lua.Tune. The client
	// stays the caller's.
	Redis redis.UniversalClient
	// Stores are other Redis servers, by the names that sides give in "store". No name
	// may be "".
	Stores map[string]redis.UniversalClient
	// Secret, if set, keeps keys out of Redis: they are stored as HMACs.
	Secret []byte
	// Limiters are the custom limiters, by the names that sides give in "limiter". A
	// reloaded file can use these, and no others.
	Limiters map[string]Limiter
	// Instance names this process in the fleet; "" means its host and process id. A random
	// number is added, because a process that starts again is another instance.
	Instance string
	// RedButton is how to enforce the authoritative at once from outside of the program.
	RedButton RedButton
	// StateDir is a directory in which the instance keeps the last stages that it has
	// applied, for a start while Redis does not answer: a promoted or completed policy then
	// goes on with the candidate. "" means shadowlimit in the user's cache directory. A
	// directory that cannot be used is a warning in the log. A pressed red button is kept
	// there, too. Without Redis in the configuration nothing is kept.
	// Instances that share a directory and have no Instance name share a file.
	StateDir string
	// Notify is a URL that every move, hold, alarm, forced step and red button is POSTed to,
	// once for the fleet, as CloudEvents in JSON, or as messages for Slack if NotifyAs is
	// "slack". It is asked again, for up to a day, while it fails. "" means that nobody is
	// told. No log shows the URL, which may hold a token.
	Notify, NotifyAs string
	// Observer is called for every check that is recorded, in the request or after it, and so must be
	// quick. Where there is nothing to compare, as without a candidate, the other side is
	// Absent and the Outcome inconclusive; a Cost of 0 only looked. It may be called concurrently. A panic is logged
	// and reaches no request.
	Observer func(Comparison)
	// Signal returns how much of the service is used, between 0 and 1, for limits that are adaptive by saturation. It is called
	// every few seconds, must be quick, and may be called concurrently with requests. A number outside of that range is no signal.
	Signal func() float64
	// Clock gives the instants at which checks are judged, for tests and simulations; nil
	// means each store's own clock. Evidence is not dated by it: see Comparison.At.
	Clock func() time.Time
	// Logger receives moves and failures; nil means slog.Default().
	Logger *slog.Logger
}

// Harness judges requests by the policies of a file. It is safe for concurrent use, and
// is a prometheus.Collector.
type Harness struct {
	*instance
	collector *collector
	cfg       Config
	reloads   reloads

	// reloading is held by one reload at a time, from the file and from the program.
	reloading sync.Mutex
	// closed is set before Close takes reloading, so that a reload under way sees it.
	closed atomic.Bool

	text     []byte             // of the policy file that New has read
	watched  context.Context    // of the goroutine that reads the file
	unwatch  context.CancelFunc // ends it
	watching sync.WaitGroup     // of that goroutine
}

// New checks a configuration and makes a harness, which Start puts to work. It asks no
// Redis. Close a harness also if it was not started.
func New(cfg Config) (*Harness, error) {
	h, err := newHarness(cfg)
	if err != nil {
		return nil, fmt.Errorf("shadow: new: %w", err)
	}
	return h, nil
}

func newHarness(cfg Config) (*Harness, error) {
	set, text, err := cfg.policies()
	if err != nil {
		return nil, err
	}

	h := &Harness{cfg: cfg}
	h.instance, err = newInstance(instanceConfig{
		name: set.Name, file: cfg.File, files: set.Name, stateDir: cfg.StateDir, id: cfg.Instance,
		redis: cfg.Redis, stores: cfg.Stores, secret: cfg.Secret,
		button: cfg.RedButton, clock: cfg.Clock, observer: cfg.Observer, log: cfg.Logger, signal: cfg.Signal,
		notify: cfg.Notify, notifyAs: cfg.NotifyAs,
	})
	if err != nil {
		return nil, err
	}

	first, err := h.planOf(set, &engine.Plan{})
	if err != nil {
		return nil, err
	}

	warn(h.fleet.Log, set)
	h.use(first)
	h.reloads.last.Store(time.Now().Unix())
	h.collector = newCollector(h.instance, &h.reloads)
	h.text = text
	h.watched, h.unwatch = context.WithCancel(context.Background())
	return h, nil
}

// Start joins the fleet: it applies the stages, writes evidence, and reads the policy file
// again when it changes, until Close. It asks Redis for the first time, and takes up to 2 s for
// that, or until ctx is over. If Redis does not answer, that is no error: the harness goes on in
// the stage that it has on its disk, and each policy's rule for failures decides. Until Start
// the authoritative is enforced and no evidence is written. Start after Start or Close is an error.
func (h *Harness) Start(ctx context.Context) error {
	if err := h.start(ctx); err != nil {
		return err
	}
	if h.cfg.File != "" {
		h.watching.Go(func() { (&watched{harness: h, file: h.cfg.File, inUse: h.text, seen: h.text}).run(h.watched) })
	}
	return nil
}

// policies returns the first set, and the text of the file if there is one.
func (c *Config) policies() (*policies.Set, []byte, error) {
	switch {
	case (c.File == "") == (c.Policies == nil):
		return nil, nil, errors.New("want either a policy File or Policies")
	case c.Policies != nil:
		return c.Policies, nil, nil
	}

	text, err := policies.ReadFile(c.File)
	if err != nil {
		return nil, nil, err
	}
	set, err := policies.Load(c.File, text, stages.Check)
	return set, text, err
}

// Close stops watching the policy file, writes the last records, tells the fleet that this
// instance has gone, and ends every goroutine, except for custom limiters that do
// not return. It takes a few seconds at most where something hangs, and less if ctx is
// over. Shut the server down first: decisions after Close are not recorded.
func (h *Harness) Close(ctx context.Context) error {
	// A reload that is under way looks at closed once more when it is done.
	h.closed.Store(true)
	h.unwatch()

	// The last plan is the one to close, so a reload ends first. The file may be on a disk
	// that hangs: the wait is bounded, and this goroutine is then left behind.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.watching.Wait()
		h.reloading.Lock() // waits for a Reload under way; no other can follow
		defer h.reloading.Unlock()
	}()
	clock.Within(ctx, fleet.Timeout, func() { <-ended })

	err := h.close(ctx)
	select {
	case <-ended:
		return err
	default:
		return errors.Join(errReload, err)
	}
}

// Sync waits for the sides that are judged behind requests so far, writes all records, and
// applies the fleet's newer states: now rather than within seconds.
func (h *Harness) Sync(ctx context.Context) error { return h.sync(ctx) }

// Stages returns the stages of the policies, to look at and to move.
func (h *Harness) Stages() Stages { return h.stages() }

// EnforceAuthoritative is the red button. While it is on, this instance enforces the
// authoritative for every key of every policy, from the next request on, whatever the
// fleet's stage, and without asking Redis. Both sides are still judged. It works beside
// the button's file, signal and handler: any of them is enough. As each press it orders a
// rollback; see RedButton.
func (h *Harness) EnforceAuthoritative(on bool) { h.fleet.Button.Press(on) }

// RedButtonHandler returns the red button as an HTTP handler, for a service that has a place
// for operators. POST presses it, DELETE releases what POST or the signal has pressed, and
// GET reports it and changes nothing. All three answer with JSON: pressed, by (file, signal,
// handler or program), kept, which says that a restart finds the button as it is, and
// not_stored, the orders to roll back that Redis does not have yet. POST answers as soon as
// they are stored, or after 2 s.
//
// POST is refused with status 409 where it would deny every request of a policy: its
// candidate is enforced and answers, the store of its authoritative does not, and the policy
// has on_store_failure: deny. The field would_deny says so, of GET too; POST with the query
// force=true presses all the same.
//
// Mount it behind the authorization of your service: it stops a migration. Requests that a
// browser sends on behalf of another site are refused with status 403.
func (h *Harness) RedButtonHandler() http.Handler { return h.buttonHandler() }

// StatusPage returns a page with the state of every policy, to be served beside metrics;
// see [Pair.StatusPage].
func (h *Harness) StatusPage() http.Handler { return h.statusPage(h.reloads.trouble) }

// Describe implements prometheus.Collector.
func (h *Harness) Describe(out chan<- *prometheus.Desc) { h.collector.describe(out) }

// Collect implements prometheus.Collector.
func (h *Harness) Collect(out chan<- prometheus.Metric) { h.collector.collect(out) }

// Policies returns the policies in use.
func (h *Harness) Policies() *policies.Set { return h.engine.Plan.Load().Set }

// Served tells the harness that a request was served: how long its handler took, and whether it failed. Adaptive limits go by
// it; without one it has no effect. httplimit calls it by itself. It may be called concurrently, allocates nothing and takes no
// lock.
func (h *Harness) Served(d time.Duration, failed bool) { h.fleet.Served(d, failed) }

// SettleToken makes the cost of a request final by the token of its decision, which may come from another instance of the same policies.
// It returns ErrToken for what is no token, and ErrSettled for a token that this instance remembers; another one does not know of it, so
// whoever has a token uses it once.
func (h *Harness) SettleToken(ctx context.Context, token string, cost int64) error {
	if err := h.engine.SettleToken(ctx, token, cost); err != nil {
		return fmt.Errorf("shadow: settle: %w", err)
	}
	return nil
}

// Reload replaces the policies in use at once and as a whole: a request is judged by one
// set or the other. A policy whose sides and key are unchanged keeps its stage and
// evidence; another one begins in shadow. On an error all stays as it was.
func (h *Harness) Reload(set *policies.Set) error {
	err := h.reload(set)
	h.reloads.note(err)
	if err != nil {
		return fmt.Errorf("shadow: reload: %w", err)
	}
	h.reloads.last.Store(time.Now().Unix())
	return nil
}

func (h *Harness) reload(set *policies.Set) error {
	if set == nil {
		return errors.New("policies are required")
	}

	h.reloading.Lock()
	defer h.reloading.Unlock()
	if h.closed.Load() {
		return errClosed
	}

	// The name is part of every key in Redis and of every key's hash. With another one all
	// limits and the evidence would begin again.
	before := h.engine.Plan.Load()
	if set.Name != h.engine.Name {
		return fmt.Errorf("the name is %q, but this service keeps its state under %q; restart it to change the name",
			set.Name, h.engine.Name)
	}

	next, err := h.planOf(set, before)
	if err != nil {
		return err
	}

	warn(h.fleet.Log, set)
	dropped := droppedFrom(before, next)
	h.replan(next, dropped)
	h.engine.Synchronize(next)
	// The series of what is compared no more would stay at their last value for ever, and be taken for those of what is.
	for _, p := range dropped {
		if now := next.Named(p.Spec.Policy); now == nil || now.Spec.Fingerprint != p.Spec.Fingerprint {
			h.durations.DeletePartialMatch(prometheus.Labels{"policy": p.Spec.Policy, "fingerprint": p.Spec.Fingerprint})
		}
	}

	// A Close that did not wait for this reload has closed the queues of the plan
	// before, not these.
	if h.closed.Load() {
		return errors.Join(engine.CloseAsync(context.Background(), next.Policies)...)
	}
	for _, c := range changesToLog(policies.Difference(before.Set, set)) {
		h.fleet.Log.Info("shadowlimit: the policies have changed", "change", c)
	}
	return nil
}

// warn logs the warnings of the policy file, which are those of validate.
func warn(log *slog.Logger, set *policies.Set) {
	for _, w := range append(slices.Clone(set.Warnings), set.Check(stages.Check)...) {
		log.Warn("shadowlimit: the policy file", "line", w.Line, "column", w.Column, "warning", w.Message)
	}
}

var (
	errReload = errors.New("shadow: close: the policy file cannot be read, or a reload does not end")
	errClosed = errors.New("the harness is closed")
)

// draft is a policy that can be made.
type draft struct {
	spec  stages.Spec
	sides [2]engine.Side
	opts  engine.PolicyOptions
}

// planOf makes the policies of a file work. Policies that compare the same sides as in the
// plan before keep their progress. On an error nothing has been started.
func (h *Harness) planOf(set *policies.Set, before *engine.Plan) (*engine.Plan, error) {
	drafts := make([]draft, len(set.Policies))
	for i, policy := range set.Policies {
		d, err := draftOf(h.instance, policy, h.cfg.Limiters)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", policy.Name, err)
		}
		d.opts.Before = before.Named(policy.Name)
		drafts[i] = d
	}

	if err := checkRules(set, h.cfg.Signal); err != nil {
		return nil, err
	}

	// Migrations start goroutines, so they are made when no error is possible any more.
	p := &engine.Plan{Set: set}
	for _, d := range drafts {
		p.Policies = append(p.Policies, engine.NewPolicy(d.spec, d.sides, d.opts))
	}
	return p, nil
}

func draftOf(i *instance, p *policies.Policy, limiters map[string]Limiter) (draft, error) {
	d := draft{spec: specOf(p), opts: i.options()}
	d.opts.OnFailure, d.opts.Together = p.OnStoreFailure, p.Together()
	if p.Settles() {
		d.opts.Settles, d.opts.Final = true, p
	}
	if err := d.spec.Config.Validate(); err != nil {
		return draft{}, err
	}

	for role, configured := range p.Sides {
		if configured == nil {
			continue
		}
		s, err := engine.SideOf(i.engine, configured, limiters)
		if err != nil {
			return draft{}, err
		}
		if p.Together() > 0 && s.Clustered() {
			return draft{}, engine.ErrClustered
		}
		d.sides[role] = s
	}

	// A first limit in Redis is asked behind the request, which no list waits for.
	if p.Together() > 0 && d.spec.FirstLimit && d.sides[algorithms.Candidate].Asynchronous() {
		return draft{}, engine.ErrFirstLimit
	}
	return d, nil
}

// Decide judges a request by every policy that matches it. It always decides: where a
// policy's expressions fail, its on_error holds, and where a store fails, its
// on_store_failure. It does not wait a Delay out.
func (h *Harness) Decide(ctx context.Context, r *policies.Request) (d Decision) {
	h.DecideInto(ctx, r, &d)
	return d
}

// DecideInto is Decide into a place of the caller's, because a Decision is expensive to copy. What stood there is overwritten.
func (h *Harness) DecideInto(ctx context.Context, r *policies.Request, d *Decision) {
	s := h.engine.Take()
	defer h.engine.Give(s)

	refused := check(ctx, h.engine, s, h.engine.Plan.Load(), r)
	h.engine.Judge(ctx, s)
	d.joinAll(s, 0, s.Len(), &refused)
}

// DecideEach judges several requests that come together, such as the descriptors of one question of Envoy, each as Decide
// does and in their order. Each store is asked once for all of them. It writes the decision of each request into the place
// of the same index, of which there must be as many, and returns all of them joined, as Decide joins those of policies.
//
// The memory of a call grows with the requests: bound their number.
func (h *Harness) DecideEach(ctx context.Context, requests []*policies.Request, into []Decision) Decision {
	s := h.engine.Take()
	defer h.engine.Give(s)

	// One plan for all: a reload between two of the requests would judge them by two files.
	now := h.engine.Plan.Load()
	ends := make([]int, len(requests))
	for i, r := range requests {
		into[i] = check(ctx, h.engine, s, now, r)
		ends[i] = s.Len()
	}
	h.engine.Judge(ctx, s)

	all, from := unlimited(), 0
	for i, end := range ends {
		refused := into[i]
		into[i].joinAll(s, from, end, &refused)
		all.join(&into[i])
		from = end
	}
	return all
}

// check adds the checks of a request. All policies are asked before any store: a request goes
// to each store once. A policy whose expression fails charges nothing, and its denial, which is
// returned, is joined at the end: the other policies are charged and compared all the same.
func check(ctx context.Context, e *engine.Engine, s *engine.Scratch, now *engine.Plan, r *policies.Request) (refused Decision) {
	refused = unlimited()
	first := s.Len()
	var denies []*engine.Policy
	for list := now.Set.Selection(r); ; {
		i, more := list.Next()
		if !more {
			break
		}

		p, m, c := now.Set.Policies[i], now.Policies[i], s.Next()
		matches, err := p.CheckInto(ctx, r, c)
		if err != nil {
			failed := onError(m, p, err)
			refused.join(&failed)
			if !failed.Allowed {
				denies = append(denies, m)
			}
		}
		if matches {
			e.Add(s, m, m.DeclaredOf(ctx, p, r))
		}
	}

	for _, m := range denies {
		s.Refuse(m, first)
	}
	refused.charges = s.EndRequest()
	return refused
}

// onError returns the decision of a policy whose expressions have failed.
func onError(m *engine.Policy, p *policies.Policy, err error) Decision {
	m.NoteError(err, p.OnError)

	// No limit is known here, so an allowed request gets no response fields.
	if p.OnError != policies.FailDeny {
		return unlimited()
	}
	return Decision{Decision: engine.LockedOut(&algorithms.Limit{}), Policy: p.Name, Fallback: true}
}
