package promotion

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Errors of a Store and of moves.
var (
	// ErrConflict is wrapped when the state changed meanwhile.
	ErrConflict = errors.New("the state has changed meanwhile")
	// ErrUnknownPolicy is wrapped when no instance has announced the policy.
	ErrUnknownPolicy = errors.New("no such policy")
)

// Spec is what instances announce of a policy: enough for a controller or the command
// line to judge it without the policy file.
type Spec struct {
	Policy        string `json:"policy"`
	Epoch         string `json:"epoch"`
	Authoritative string `json:"authoritative"` // as configured, for display
	Candidate     string `json:"candidate"`
	Config        Config `json:"config"`
	// Noise says that instances measure the noise floor.
	Noise bool `json:"noise,omitempty"`
}

// Instance is the report of an instance on itself, which it sends with every beat.
type Instance struct {
	ID string `json:"id"`
	// At is when it reported that, by the store's clock.
	At time.Time `json:"at"`
	// RedButton says that it enforces the authoritative, whatever the stage.
	RedButton bool `json:"red_button,omitempty"`
	// Client are warnings about the options of its Redis clients, a sentence each.
	Client []string `json:"client,omitempty"`
	// Policies by name.
	Policies map[string]Applied `json:"policies"`
}

// Applied is how far an instance is with a policy.
type Applied struct {
	Version Version `json:"version"`
	Epoch   string  `json:"epoch"`
	// Flushed is when it last wrote its evidence.
	Flushed time.Time `json:"flushed"`
}

// An instance is live if its last beat is at most LiveFor ago. After that it counts as
// silent, and is forgotten after SilentFor.
const (
	LiveFor   = 15 * time.Second
	SilentFor = 10 * time.Minute
)

// Store keeps the states of all policies of one name, and the instances. Methods may be
// called concurrently. Arguments belong to the caller again when a method returns.
//
// A store is shared with other releases and other programs, so it may hold entries that
// this release cannot read. States must report such a state as rolled back. Specs and
// Instances leave such entries out, so that one of them does not hide the others. History
// fails as a whole: an audit trail with gaps must not look complete.
type Store interface {
	// Now returns the store's clock. All times of states and instances are by it.
	Now(ctx context.Context) (time.Time, error)
	// States returns the states of policies, in their order; the zero State for
	// one without.
	States(ctx context.Context, policies []string) ([]State, error)
	// Put stores a state, adds it to the audit trail and notifies all watchers. With
	// expect it does so if exactly that state is stored, without expect if next
	// supersedes the stored state; otherwise it wraps ErrConflict. States of one
	// version may differ after a failover; of two that are equally safe neither
	// supersedes the other.
	Put(ctx context.Context, policy string, next State, expect *State) error
	// History returns the audit trail, oldest first.
	History(ctx context.Context, policy string) ([]State, error)
	// Announce makes policies known. It replaces earlier announcements under the same
	// names.
	Announce(ctx context.Context, specs []Spec) error
	// Specs returns the announced policies by name.
	Specs(ctx context.Context) ([]Spec, error)
	// Beat notes that an instance is live, Leave that it has stopped.
	Beat(ctx context.Context, i Instance) error
	Leave(ctx context.Context, id string) error
	// Instances returns the instances with a beat within SilentFor, in order of their ids.
	Instances(ctx context.Context) ([]Instance, error)
	// Watch returns a channel that receives after a state was put, until ctx is over.
	// Messages may get lost, so watchers must also poll. The store closes the channel
	// after ctx is over, and not before, once it holds nothing for the watcher any more.
	Watch(ctx context.Context) <-chan struct{}
}

// LiveAt splits the instances that know a policy, or all instances if it is "", into those
// that are live at an instant and the silent ones.
func LiveAt(now time.Time, policy string, all []Instance) (live, silent []Instance) {
	for _, i := range all {
		if _, known := i.Policies[policy]; !known && policy != "" {
			continue
		}
		if now.Sub(i.At) <= LiveFor {
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
