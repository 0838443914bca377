package stages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// Errors of a Store and of moves.
var (
	// ErrConflict is wrapped when the state changed meanwhile.
	ErrConflict = errors.New("the state has changed meanwhile")
	// ErrStale is wrapped when a step's evidence is more than EvidenceWithin from the store's clock.
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

// Spec is what instances announce of a policy: enough for a leader or the command
// line to evaluate it without the policy file.
type Spec struct {
	Policy        string `json:"policy"`
	Fingerprint   string `json:"fingerprint"`
	Authoritative string `json:"authoritative"` // as configured, for display
	Candidate     string `json:"candidate"`
	Config        Config `json:"config"`
	// First says that the policy file names keys that are in a canary from its first step. The expression
	// stays in the file: it may name clients.
	First bool `json:"first,omitempty"`
	// Labels are those of the policy file, by name.
	Labels map[string]string `json:"labels,omitempty"`
	// FirstLimit reports that there is no authoritative, which then allows everything and cannot fail.
	FirstLimit bool `json:"first_limit,omitempty"`
	// Followed reports that the authoritative's answers are those of a log, or that the requests are: another program enforces, and
	// no stage reaches it.
	Followed bool `json:"followed,omitempty"`
	// OnStoreFailure is FailLocal, FailAllow or FailDeny.
	OnStoreFailure string `json:"on_store_failure,omitempty"`
	// Store is where the authoritative is, as the file names it; "" for the service's own Redis, and without one.
	Store string `json:"store,omitempty"`
	// CandidateStore is where the candidate is, likewise.
	CandidateStore string `json:"candidate_store,omitempty"`
	// AsksStore says by role that a store decides the side at each request: the service's own Redis where the store has no
	// name. It is false for a custom limiter, and for a side that is decided in the process.
	AsksStore [2]bool `json:"asks_store,omitzero"`
	// Apart reports that the sides share no record: a check can reach one of them only.
	Apart bool `json:"apart,omitempty"`
	// PerProcess are the limits by role of sides of which each instance has such a budget of its own; zero for others, and where
	// an expression decides the limit.
	PerProcess [2]algorithms.Limit `json:"per_process,omitzero"`
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

// Ratios returns the ratios that the policy may have. A first limit has those of all requests that it newly denies.
func (s *Spec) Ratios() []evidence.Ratio {
	if s.FirstLimit {
		return []evidence.Ratio{evidence.OfAllows, evidence.AllowsCost}
	}
	return evidence.AllRatios[:]
}

// sides says what can disturb the time of a policy.
func (s *Spec) sides() gate.Sides {
	return gate.Sides{Apart: s.Apart, Window: s.Window, Copied: s.Copied, Stores: [2]string{s.Store, s.CandidateStore}, First: s.FirstLimit}
}

// Instance is what an instance says of itself.
type Instance struct {
	ID string `json:"id"`
	// At is when it was last heard, by the store's clock, and set by the store.
	At time.Time `json:"-"`
	// Idle says that it has not decided a request since it started: it neither keeps a fingerprint nor brings one.
	Idle bool `json:"idle,omitempty"`
	// Generation is the policy file's.
	Generation int64 `json:"generation,omitempty"`
	// RedButton says that it enforces the authoritative, whatever the stage.
	RedButton bool `json:"red_button,omitempty"`
	// Failing are the stores of Config.Stores that do not answer it, by name: their breakers are open.
	Failing []string `json:"failing,omitempty"`
	// OwnStoreUnreachable says the same of the service's own Redis, which may take heartbeats again before a breaker has closed:
	// requests fall back until then.
	OwnStoreUnreachable bool `json:"own_store_unreachable,omitempty"`
	// Client are warnings about the options of its Redis clients, a sentence each.
	Client []string `json:"client,omitempty"`
	// Service is nil where no limit is adaptive.
	Service *Service `json:"service,omitempty"`
	// Policies by name.
	Policies map[string]Applied `json:"policies,omitempty"`
}

// Applied is how far an instance is with a policy.
type Applied struct {
	Version     Version `json:"version"`
	Fingerprint string  `json:"fingerprint"`
	// Flushed is the instant as of which no evidence waits to be written.
	Flushed time.Time `json:"flushed,omitzero"`
}

// Heartbeat is what an instance tells the store, and asks it, at once.
type Heartbeat struct {
	// ID is the instance's; "" only asks.
	ID string
	// Self replaces what the instance has said of itself; nil leaves it.
	Self *Instance
	// Leads asks for the lease, or for more time with it. Leaves takes the instance off the list, and
	// gives the lease back.
	Leads, Leaves bool
	// Specs are announced. They replace those of the same policies.
	Specs []Spec
	// Policies are those whose states it asks for, unless Changes is still the store's number; 0 asks in any case.
	Policies []string
	Changes  int64
}

// Heard is the store's answer to a heartbeat.
type Heard struct {
	Now time.Time
	// Changes is another number after each state that was stored; 0 if there is none.
	Changes int64
	// States are in the order of the policies, nil if none can have changed.
	States []State
	// Leader has the lease for Lease; "" if nobody has it.
	Leader string
	Lease  time.Duration
	// Live is the number of live instances, and Known whether the store has what this one has said of itself.
	Live  int
	Known bool
	// Levels are what the leader has published of adaptive limits, by the key of their rule; nil without recent ones.
	Levels map[string]adaptive.State
	// Refused is why the store takes no writes; nil if it has taken this one.
	Refused error
}

// Fleet is what the store knows besides states and evidence.
type Fleet struct {
	Now time.Time
	// Leader has the lease; "" if nobody has it.
	Leader string
	// Instances are those heard within SilentFor, in order of their ids, and Specs the announced policies by name.
	Instances []Instance
	Specs     []Spec
}

// Telling is what somebody who tells a receiver of moves asks the store. One at a time does, with a lease of LeaseFor.
type Telling struct {
	To string // names the receiver
	ID string // of the caller
	// Leaves gives the lease back.
	Leaves bool
	// Marks are stored, of up to 100 bytes each, and the texts of those named in Asks are returned.
	Marks map[string]string
	Asks  []string
}

// Told is the store's answer to a Telling.
type Told struct {
	Now time.Time
	// Mine reports whether the caller has the lease. Marks are those that were asked for, "" where there is none; nil without the lease.
	Mine  bool
	Marks map[string]string
}

// Condition says when a state may be put.
type Condition struct {
	// Expect is the state that must be stored; nil asks that the new state supersedes the
	// stored one.
	Expect *State
	// AsOf is the instant of the evidence, by the store's clock; zero for a move that needs
	// none. It must be within EvidenceWithin of that clock.
	AsOf time.Time
}

func errStale(what string, asOf time.Time) error {
	return fmt.Errorf("stages: %s: evidence of %s: %w", what, asOf.UTC().Format(time.RFC3339), ErrStale)
}

// Store keeps the states of all policies of one name, and the instances. Methods may be
// called concurrently. Arguments belong to the caller again when a method returns.
//
// A store is shared with other programs, so it may hold entries that cannot be read. States are then reported as rolled
// back. A Fleet and findings leave such entries out, so that one of them does not hide the others. History
// fails as a whole: an audit trail with gaps must not look complete.
type Store interface {
	// States returns the states of policies, in their order; the zero State for
	// one without.
	States(ctx context.Context, policies []string) ([]State, error)
	// Put stores a state, adds it to the audit trail, changes the number of changes and notifies all watchers. With an
	// expected state it does so if exactly that state is stored, without one if next
	// supersedes the stored state; otherwise it wraps ErrConflict. States of one version
	// may differ after a failover. It wraps ErrStale if the condition's instant is too far
	// from the store's clock.
	Put(ctx context.Context, policy string, next State, only Condition) error
	// History returns the audit trail, oldest first.
	History(ctx context.Context, policy string) ([]State, error)
	// Heartbeat notes that an instance is live. It reads even where nothing can be written.
	Heartbeat(ctx context.Context, h Heartbeat) (Heard, error)
	// Fleet returns the clock, the instances and the announced policies.
	Fleet(ctx context.Context) (Fleet, error)
	// Publish stores what the leader has found. It wraps ErrStale if that is too old, or if another instance leads.
	Publish(ctx context.Context, f Findings) error
	// Published returns what the leader has found of policies, in their order; a zero value where there is none. With
	// details it reads them, too.
	Published(ctx context.Context, policies []string, details bool) ([]Published, error)
	// Tell asks for the lease of telling a receiver of moves, and stores what it was told while the caller has it.
	Tell(ctx context.Context, t Telling) (Told, error)
	// Watch returns a channel that receives after a state was put, until ctx is over.
	// Messages may get lost, so watchers must also poll. The store closes the channel
	// after ctx is over, and not before, once it holds nothing for the watcher any more.
	Watch(ctx context.Context) <-chan struct{}
}

// Announced returns the spec of a policy, and whether there is one.
func (f *Fleet) Announced(policy string) (Spec, bool) {
	for _, s := range f.Specs {
		if s.Policy == policy {
			return s, true
		}
	}
	return Spec{}, false
}

// Policies returns the names of the announced policies.
func (f *Fleet) Policies() []string {
	names := make([]string, len(f.Specs))
	for i, s := range f.Specs {
		names[i] = s.Policy
	}
	return names
}

// With splits the instances that have a policy, or all if it is "", into live and silent ones.
func (f *Fleet) With(policy string) (live, silent []Instance) {
	return liveAt(f.Now, policy, f.Instances)
}

// liveAt splits the instances that know a policy, or all instances if it is "", into those
// that are live at an instant and the silent ones.
func liveAt(now time.Time, policy string, all []Instance) (live, silent []Instance) {
	for _, i := range all {
		if _, knows := i.Policies[policy]; policy != "" && !knows {
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

// heardOf returns the instances that were heard within SilentFor, in order of their ids.
func heardOf(all []Instance, now time.Time) []Instance {
	all = slices.DeleteFunc(all, func(i Instance) bool { return !within(now, i.At, SilentFor) })
	slices.SortFunc(all, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	return all
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

// within reports whether two instants are no more than a time apart, in either order: the
// clock of a store steps back when a server takes over whose clock is behind.
func within(a, b time.Time, d time.Duration) bool { return a.Sub(b).Abs() <= d }
