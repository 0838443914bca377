package divergence

import (
	"math/bits"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// ReactingClients is how many clients of an hour are watched in each group of a holdback: those of the least hashes.
const ReactingClients = 2048

// Cohort is one of the two groups of keys that a holdback compares, called group in metrics and documents, where a group of limits is
// another thing. Its hash alone decides in which of them a key is.
type Cohort int

const (
	NoCohort       Cohort = iota // no keys are held back now, or the file places this key
	CohortHeldBack               // the authoritative stays enforced
	CohortOthers                 // the candidate is enforced
	cohorts        = iota - 1
)

// Cohorts are both of them.
var Cohorts = [cohorts]Cohort{CohortHeldBack, CohortOthers}

var cohortNames = [...]string{"", "held_back", "others"}

// String returns the name as in metrics and JSON.
func (g Cohort) String() string { return cohortNames[g] }

// Reaction is what one client did in an hour in which its requests were denied, or were not. Requests are all that the
// policy charged, with or without a comparison.
type Reaction struct {
	// Hash is the Client's.
	Hash uint64
	// Denials are the requests that the enforced side denied. Minutes has bit i set if there was one in the hour's minute i.
	Denials int64
	Minutes uint64
	// Last is when the last request came, and LastDenied the last one that was denied: in milliseconds of the hour.
	Last, LastDenied uint32
}

// place orders reactions in a sample.
func (r *Reaction) place() uint64 { return r.Hash }

// join adds what another observer saw of the same client in the same hour.
func (r *Reaction) join(other *Reaction) {
	r.Denials += other.Denials
	r.Minutes |= other.Minutes
	r.Last = max(r.Last, other.Last)
	r.LastDenied = max(r.LastDenied, other.LastDenied)
}

// Retries returns how many denials followed another one of the same minute.
func (r *Reaction) Retries() int64 { return max(0, r.Denials-int64(bits.OnesCount64(r.Minutes))) }

// Silent reports whether the client made no request in the rest of the hour after its last denial.
func (r *Reaction) Silent() bool { return r.Denials > 0 && r.Last <= r.LastDenied }

// Reactions are those of all clients of a group whose hash is less than Below, as in Clients.
type Reactions struct {
	Below uint64
	List  []Reaction
}

// Join adds what another observer saw of the same hour.
func (r *Reactions) Join(other *Reactions) {
	r.Below, r.List = joinSamples(r.Below, r.List, other.Below, other.List, ReactingClients)
}

// Find returns the reaction of a hash, or nil.
func (r *Reactions) Find(hash uint64) *Reaction {
	if i, found := search(r.List, hash); found {
		return &r.List[i]
	}
	return nil
}

// Of returns the reactions of a group's clients.
func (h *Hour) Of(g Cohort) *Reactions { return &h.Reactions[g-1] }

// reactionTable watches the clients of least hash among those of one stripe.
type reactionTable struct{ sampleTable[reactionTally] }

// reactionTally is a Reaction between two snapshots.
type reactionTally struct {
	minutes                   uint64
	denials, last, lastDenied uint32
}

// watch notes a request of the key at an instant of the hour.
func (t *reactionTable) watch(hash uint64, in time.Duration, denied bool, by *sampling) {
	client := t.of(hash, by)
	if client == nil {
		return
	}

	// A late observation counts in an hour that is still open, and a clock may have been wrong.
	in = min(max(in, 0), time.Hour-1)
	ms := uint32(in / time.Millisecond)
	client.last = max(client.last, ms)
	if denied {
		client.denials++
		client.minutes |= 1 << (in / time.Minute)
		client.lastDenied = max(client.lastDenied, ms)
	}
}

// take returns the reactions and begins again.
func (t *reactionTable) take() Reactions {
	return Reactions{t.below, takeSample(&t.sampleTable, reactionOf)}
}

// reactionOf makes the Reaction that a ledger stores of what a table has seen.
func reactionOf(place uint64, t *reactionTally) Reaction {
	return Reaction{place, int64(t.denials), t.minutes, t.last, t.lastDenied}
}

// watch notes what the key's client does, where keys are held back. The fallback's denials are not in the observations.
func (r *Recorder) watch(hour *openHour, hash uint64, at time.Time, o *[2]algorithms.Observation, setting *Setting) {
	if setting.Cohort == NoCohort {
		return
	}
	enforced := &o[setting.Enforced]
	denied := enforced.Status == algorithms.Judged && !enforced.Decision.Allowed
	in := at.Sub(time.Unix(hour.Unix*SecondsPerHour, 0))
	hour.reactions[setting.Cohort-1].watch(hash, in, denied, &r.sample.reacting)
}
