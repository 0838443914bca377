package divergence

import (
	"context"
	"strconv"
)

// Ledger keeps what all instances saw of all policies. Entries belong to an epoch: counts of one comparison never mix
// with those of an earlier one.
//
// Implementations are safe for concurrent use, and pass ledgertest.Run. Hours, days and entries of ticks are counted
// from the Unix epoch. Ranges include both ends. A read of entries that do not exist returns an empty result and no
// error.
type Ledger interface {
	// Write stores an instance's snapshot, in place of what the same instance wrote of the same hours and day before.
	// It may be repeated. After an error the snapshot may be stored in part, or not at all.
	Write(ctx context.Context, id ID, instance string, s *Snapshot) error

	// Hours returns what each instance wrote of the hours from one to another, in the order of hours.
	Hours(ctx context.Context, id ID, from, to int64) ([]Hour, error)

	// Distinct returns how many different keys of each kind were seen in the epoch, to within about 1 %. Counts of
	// instances must not be added: a key that several of them saw is one key (decision 0303).
	Distinct(ctx context.Context, id ID) ([keyKinds]int64, error)

	// Ticks returns the joined ticks of all instances, in order, of the entries of BucketSeconds each from one to
	// another. A ledger forgets ticks within hours.
	Ticks(ctx context.Context, id ID, from, to int64) ([]Tick, error)

	// Top returns the keys of a kind with the highest counts from one day to another.
	Top(ctx context.Context, id ID, kind KeyKind, from, to int64) ([]KeyCount, error)
}

// ID names a policy in one of its epochs. Package promotion adds to Epoch the instant at which the evidence began, so
// that a resumed policy does not find its old counts.
type ID struct{ Policy, Epoch string }

// writer returns the name under which a snapshot is stored. Incarnation 0 has the instance's plain name.
func (s *Snapshot) writer(instance string) string {
	if s.Incarnation == 0 {
		return instance
	}
	return instance + "#" + strconv.FormatInt(s.Incarnation, 10)
}
