package evidence

import (
	"context"
	"time"
)

// Ledger keeps what all instances count of all policies, in one table of slots: a slot is a minute of a policy, and what
// instances write are additions to it. Hours are sums of slots, which live much longer. Entries belong to a fingerprint: counts
// of one comparison never mix with those of another one.
//
// Implementations are safe for concurrent use, and pass ledgertest.Run. Minutes and hours are counted from the Unix epoch.
// Ranges include both ends. A read of entries that do not exist returns an empty result and no error. Batches and results may
// share their lists with the ledger, so neither side changes them afterwards.
type Ledger interface {
	// Add adds a batch, unless the ledger has seen its number: then it changes nothing. After an error the batch may be added or
	// not, so the same one is sent again. A slot that is more than two hours old by the ledger's clock takes nothing any more:
	// dropped is the number of such slots.
	Add(ctx context.Context, id ID, b *Batch) (dropped int, err error)

	// Slots returns the slots from a minute on that have changed since a change, 0 for all, and the last change of the policy. It
	// may return more. A last change before since says that the ledger has lost data.
	Slots(ctx context.Context, id ID, from, since int64) (slots []Slot, last int64, err error)

	// Store stores an hour as of a change of its slots. It stores nothing if the hour of a later change is stored, or if the
	// hour's slots are gone.
	Store(ctx context.Context, id ID, h *Hour, change int64) error

	// Hours returns the stored hours from one to another, in order.
	Hours(ctx context.Context, id ID, from, to int64) ([]Hour, error)

	// Distinct returns how many different keys of each kind were seen, to within about 1 %.
	Distinct(ctx context.Context, id ID) ([keyKinds]int64, error)

	// Top returns the keys of a kind with the highest counts.
	Top(ctx context.Context, id ID, kind KeyKind) ([]KeyCount, error)
}

// ID names the evidence of a policy: by its fingerprint and, from package stages, the instant at which it began, so
// that a resumed policy does not find its old counts.
type ID struct{ Policy, Evidence string }

// Batch is what one instance has counted since its last batch. Its content never changes, so it can be sent any number of times.
type Batch struct {
	// Writer names the recorder, and is new at each of its starts: numbers would be taken for those of another one.
	Writer string
	// Seq grows with each batch of the writer, from 1.
	Seq   int64
	Slots []Slot
	// Until says that the writer has counted nothing before that is not in this batch or one before. Zero: there is more.
	Until time.Time

	// Whole reports that Tops and Keys are part of the batch. They are only shown, so most batches leave them out.
	Whole bool
	// Tops are the keys that were counted most often, masked if there is a secret.
	Tops [keyKinds][]KeyCount
	// Keys are hashes that the ledger may not have counted yet.
	Keys [keyKinds][]uint64
}

const (
	// KeptDays is how many days of evidence a Reader returns.
	KeptDays = 32

	// takesFor is how old a slot may be that still takes additions, and aheadFor how far ahead: the clocks of two stores differ.
	takesFor = 2 * time.Hour
	aheadFor = 10 * time.Minute
	// slotsLive is how long slots live after the end of their hour. All slots of an hour live for an hour after the last addition
	// to one of them, so an hour is computed of whole slots or not at all.
	slotsLive = 3 * time.Hour
	// writersLive is how long a ledger remembers the number of a writer: until no slot of its last batch takes additions.
	writersLive = 3 * time.Hour
	// hoursLive is a margin longer than KeptDays.
	hoursLive = 40 * HoursPerDay * time.Hour

	// liveHours is how many hours have all of their slots, the current one among them.
	liveHours = int64(slotsLive/time.Hour) + 1
	// changesKept is more than all minutes that can have changed while the slots of a live hour do live.
	changesKept = 500
	// topKept is how many keys of a kind a ledger keeps.
	topKept = 300
	// harmedKept is how many keys a tick lists, and weightsKept of how many it has the counts.
	harmedKept  = 1024
	weightsKept = 64
)

// gone returns when the slots of an hour are gone.
func gone(hour int64) time.Time { return time.Unix((hour+1)*SecondsPerHour, 0).Add(slotsLive) }

// takes reports whether a slot takes additions.
func takes(minute int64, now time.Time) bool {
	age := now.Unix() - minute*SecondsPerMinute
	return age <= int64(takesFor/time.Second) && age >= -int64(aheadFor/time.Second)
}
