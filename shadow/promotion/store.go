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

// Spec is what instances announce of a policy: enough for a controller or the
// command line to judge it without its file.
type Spec struct {
	Policy        string `json:"policy"`
	Epoch         string `json:"epoch"`
	Authoritative string `json:"authoritative"` // as configured, for people
	Candidate     string `json:"candidate"`
	Config        Config `json:"config"`
	// Noise says that instances measure the noise floor.
	Noise bool `json:"noise,omitempty"`
}

// Instance is what an instance says of itself, again and again.
type Instance struct {
	ID string `json:"id"`
	// At is when it said so, by the store's clock.
	At time.Time `json:"at"`
	// RedButton says that it enforces the authoritative, whatever the stage.
	RedButton bool `json:"red_button,omitempty"`
	// Client says what does not suit a limiter about the options of the Redis
	// clients that it was given, a sentence each.
	Client []string `json:"client,omitempty"`
	// Policies by name.
	Policies map[string]Applied `json:"policies"`
}

// Applied is how far an instance is with a policy.
type Applied struct {
	Version Version `json:"version"`
	Epoch   string  `json:"epoch"`
	// Flushed is when it last wrote what it saw.
	Flushed time.Time `json:"flushed"`
}

// An instance is live if it was heard of within LiveFor, and remembered, as one
// that fell silent, for SilentFor.
const (
	LiveFor   = 15 * time.Second
	SilentFor = 10 * time.Minute
)

// Store keeps the states of all policies of one name, and who is there. Methods
// may be called concurrently.
type Store interface {
	// Now returns the store's clock, which all times of states and instances are by.
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
	// Announce makes policies known, in place of what was announced under their
	// names before.
	Announce(ctx context.Context, specs []Spec) error
	// Specs returns the announced policies by name.
	Specs(ctx context.Context) ([]Spec, error)
	// Beat notes that an instance is there, Leave that it has gone.
	Beat(ctx context.Context, i Instance) error
	Leave(ctx context.Context, id string) error
	// Instances returns who was heard of within SilentFor, by id.
	Instances(ctx context.Context) ([]Instance, error)
	// Watch returns a channel that receives after a state was put, as far as
	// messages arrive, until ctx is over. Who needs to know must also ask.
	Watch(ctx context.Context) <-chan struct{}
}

// LiveAt splits instances that know a policy, all if it is "", into those that are
// live at an instant and those that fell silent.
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

// names of instances, those that match.
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
