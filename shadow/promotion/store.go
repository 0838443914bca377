package promotion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of a Store and of moves.
var (
	// ErrConflict is wrapped when the state changed meanwhile.
	ErrConflict = errors.New("the state has changed meanwhile")
	// ErrStale is wrapped when a step's evidence is more than 30 s from the store's clock.
	ErrStale = errors.New("the evidence is too old, or the store's clock has stepped")
	// ErrUnknownPolicy is wrapped when no instance has announced the policy.
	ErrUnknownPolicy = errors.New("no such policy")
)

// The values of Spec.OnStoreFailure, as policy files write them.
const (
	FailLocal = "local" // each instance applies its share of the limit
	FailAllow = "allow"
	FailDeny  = "deny"
)

// Spec is what instances announce of a policy: enough for a controller or the command
// line to judge it without the policy file.
type Spec struct {
	Policy        string `json:"policy"`
	Epoch         string `json:"epoch"`
	Authoritative string `json:"authoritative"` // as configured, for display
	Candidate     string `json:"candidate"`
	Config        Config `json:"config"`
	// First says that the policy file names keys that are in a canary from its first step. The expression
	// stays in the file: it may name clients.
	First bool `json:"first,omitempty"`
	// OnStoreFailure is FailLocal, FailAllow or FailDeny.
	OnStoreFailure string `json:"on_store_failure,omitempty"`
	// Store is where the authoritative is, as the file names it; "" for the service's own Redis, and without one.
	Store string `json:"store,omitempty"`
	// CandidateStore is where the candidate is, likewise.
	CandidateStore string `json:"candidate_store,omitempty"`
	// AsksStore says by role that a store decides the side at each request: the service's own Redis where the store has no
	// name. It is false for a foreign limiter, and for a side that is decided in the process.
	AsksStore [2]bool `json:"asks_store,omitzero"`
	// Apart reports that the sides share no record: a check can reach one of them only.
	Apart bool `json:"apart,omitempty"`
	// Window is the longer window of the sides.
	Window time.Duration `json:"window_ns,omitempty"`
	// Copied reports that a candidate that begins beside the authoritative begins as its copy: one
	// record, one algorithm, one window.
	Copied bool `json:"copied,omitempty"`
	// AuthoritativeRule and CandidateRule are the keys of the levels of adaptive sides; "" for a side whose limit is always
	// the whole.
	AuthoritativeRule string `json:"authoritative_rule,omitempty"`
	CandidateRule     string `json:"candidate_rule,omitempty"`
}

// Instance is the report of an instance on itself, which it sends with every beat.
type Instance struct {
	ID string `json:"id"`
	// At is when it reported that, by the store's clock.
	At time.Time `json:"at"`
	// Idle says that it has not decided a request since it started, so it has no vote.
	Idle bool `json:"idle,omitempty"`
	// RedButton says that it enforces the authoritative, whatever the stage.
	RedButton bool `json:"red_button,omitempty"`
	// Failing are the stores of Config.Stores that do not answer it, by name: their breakers are open.
	Failing []string `json:"failing,omitempty"`
	// OwnStoreAway says the same of the service's own Redis, which may take beats again before a breaker has closed: requests
	// fall back until then.
	OwnStoreAway bool `json:"own_store_away,omitempty"`
	// Client are warnings about the options of its Redis clients, a sentence each.
	Client []string `json:"client,omitempty"`
	// Service is nil where no limit is adaptive.
	Service *Service `json:"service,omitempty"`
	// Policies by name. They are nil where only their Plan is stored, and cannot be read.
	Policies map[string]Applied `json:"policies,omitempty"`
	planned
}

// planned stands for the policies in a stored beat.
type planned struct {
	// Plan stands for the policies in a stored beat. Flushed then is when it last wrote their
	// evidence, and Behind when it did so for those of which that was long before.
	Plan    string               `json:"plan,omitempty"`
	Flushed time.Time            `json:"flushed,omitzero"`
	Behind  map[string]time.Time `json:"behind,omitempty"`
}

// has reports whether an instance has a policy. One whose plan cannot be read may have any: a
// rollback waits for it.
func (i *Instance) has(policy string) bool {
	_, known := i.Policies[policy]
	return known || i.Plan != "" && i.Policies == nil
}

// Applied is how far an instance is with a policy.
type Applied struct {
	Version Version `json:"version"`
	Epoch   string  `json:"epoch"`
	// Generation is the policy file's.
	Generation int64 `json:"generation,omitempty"`
	// Flushed is the instant as of which no evidence waits to be written.
	Flushed time.Time `json:"flushed,omitzero"`
}

// An instance is live if its last beat is within LiveFor of the store's clock, before or
// after: the clock may have stepped back. After that it counts as silent, and is forgotten
// after SilentFor.
const (
	LiveFor   = 15 * time.Second
	SilentFor = 10 * time.Minute
)

// Condition says when a state may be put.
type Condition struct {
	// Expect is the state that must be stored; nil asks that the new state supersedes the
	// stored one.
	Expect *State
	// AsOf is the instant of the evidence, by the store's clock; zero for a move that needs
	// none. It must be within 30 s of that clock.
	AsOf time.Time
}

// asOfWithin is how old evidence may be. Reading and judging it takes seconds at most; a
// process that was stopped in between must not act on what it knew then.
const asOfWithin = 30 * time.Second

func errStale(policy string, asOf time.Time) error {
	return fmt.Errorf("promotion: %s: evidence of %s: %w", policy, asOf.UTC().Format(time.RFC3339), ErrStale)
}

// Store keeps the states of all policies of one name, and the instances. Methods may be
// called concurrently. Arguments belong to the caller again when a method returns.
//
// A store is shared with other programs, so it may hold entries that cannot be read. States must report such a state as rolled back. Specs and
// Instances leave such entries out, so that one of them does not hide the others. History
// fails as a whole: an audit trail with gaps must not look complete.
type Store interface {
	// Now returns the store's clock. All times of states and instances are by it.
	Now(ctx context.Context) (time.Time, error)
	// States returns the states of policies, in their order; the zero State for
	// one without.
	States(ctx context.Context, policies []string) ([]State, error)
	// Put stores a state, adds it to the audit trail and notifies all watchers. With an
	// expected state it does so if exactly that state is stored, without one if next
	// supersedes the stored state; otherwise it wraps ErrConflict. States of one version
	// may differ after a failover. It wraps ErrStale if the condition's instant is too far
	// from the store's clock.
	Put(ctx context.Context, policy string, next State, only Condition) error
	// Changes returns a number that each Put changes after it has stored a state; 0 if there is
	// none. An instance that knows the number need not read the states again, whatever their
	// number. A process that dies between the two puts a state without it. NoteChange changes the
	// number for it.
	Changes(ctx context.Context) (int64, error)
	NoteChange(ctx context.Context) error
	// History returns the audit trail, oldest first.
	History(ctx context.Context, policy string) ([]State, error)
	// Announce makes policies known. It replaces earlier announcements under the same
	// names.
	Announce(ctx context.Context, specs []Spec) error
	// Specs returns the announced policies by name.
	Specs(ctx context.Context) ([]Spec, error)
	// Forget removes all that is kept of a policy: its announcement, its state and its audit
	// trail. A policy of which nothing is kept is no error. An instance that still has the
	// policy writes it again.
	Forget(ctx context.Context, policy string) error
	// Beat notes that an instance is live, Leave that it has stopped.
	Beat(ctx context.Context, i Instance) error
	Leave(ctx context.Context, id string) error
	// Instances returns the instances with a beat within SilentFor, in order of their ids.
	Instances(ctx context.Context) ([]Instance, error)
	// Lease takes or extends the teller's lease by that time, and reports whether the
	// holder has it; one instance at a time has it. A time of 0 gives it back.
	Lease(ctx context.Context, holder string, d time.Duration) (bool, error)
	// Publish stores what the teller has counted, Count returns it, and Head its small part: the
	// zero value if there is none.
	Publish(ctx context.Context, c Count) error
	Head(ctx context.Context) (Head, error)
	Count(ctx context.Context) (Count, error)
	// NoteJudged notes that policies were judged, and keeps the assessments that have a judge. A
	// later judgement stands. It wraps ErrStale if the instant is too far from the store's clock.
	NoteJudged(ctx context.Context, j Judgement, list []Published) error
	// Judged returns the last judgements, Assessments the findings, without Details, which
	// Details returns; all in the order of the policies, and a zero value where there is none.
	Judged(ctx context.Context, policies []string) ([]Judgement, error)
	Assessments(ctx context.Context, policies []string) ([]Published, error)
	Details(ctx context.Context, policies []string) ([]*Details, error)
	// Watch returns a channel that receives after a state was put, until ctx is over.
	// Messages may get lost, so watchers must also poll. The store closes the channel
	// after ctx is over, and not before, once it holds nothing for the watcher any more.
	Watch(ctx context.Context) <-chan struct{}
}

// LiveAt splits the instances that know a policy, or all instances if it is "", into those
// that are live at an instant and the silent ones.
func LiveAt(now time.Time, policy string, all []Instance) (live, silent []Instance) {
	for _, i := range all {
		if policy != "" && !i.has(policy) {
			continue
		}
		if within(now, i.At, LiveFor) {
			live = append(live, i)
		} else {
			silent = append(silent, i)
		}
	}
	return live, silent
}

// idsOf returns the sorted ids of the instances that match.
func idsOf(instances []Instance, match func(Instance) bool) []string {
	var ids []string
	for _, i := range instances {
		if match(i) {
			ids = append(ids, i.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
