package divergence

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// Ledger keeps what all instances saw of all policies. Entries belong to an epoch: counts of one comparison never mix
// with those of an earlier one.
//
// An instance writes records, each in place of the one before. A judge folds their sealed batches into hours of the fleet,
// whose size does not depend on the number of instances. Evidence is both together. See docs/ledger.md.
//
// Implementations are safe for concurrent use, and pass ledgertest.Run. Hours, days and entries of ticks are counted
// from the Unix epoch. Ranges include both ends. A read of entries that do not exist returns an empty result and no
// error. Snapshots, folds and results may share their hours and lists with the ledger, so neither side changes them
// afterwards.
type Ledger interface {
	// Write stores an instance's snapshot: its record and ticks in place of those before, its frequent keys in place of
	// those of the same day. It may be repeated. After an error the snapshot may be stored in part, or not at all.
	Write(ctx context.Context, id ID, instance string, s *Snapshot) error

	// Acked returns what folds have counted of a writer.
	Acked(ctx context.Context, id ID, writer Writer) (Ack, error)

	// Hours returns the folded hours from one to another, in order.
	Hours(ctx context.Context, id ID, from, to int64) (Page, error)

	// Evidence returns Hours and all records as they were at one instant between two folds.
	Evidence(ctx context.Context, id ID, from, to int64) (Evidence, error)

	// Fold stores what a judge has folded, all of it or nothing. It returns ErrFolded and stores nothing if the ledger has
	// had another fold than the expected one. After another error the fold may be stored.
	Fold(ctx context.Context, id ID, f *Fold) error

	// Distinct returns how many different keys of each kind were seen in the epoch, to within about 1 %. Counts of
	// instances must not be added: a key that several of them saw is one key.
	Distinct(ctx context.Context, id ID) ([keyKinds]int64, error)

	// Ticks returns the joined ticks of all instances, in order, of the entries of BucketSeconds each from one to
	// another. A ledger forgets ticks within hours.
	Ticks(ctx context.Context, id ID, from, to int64) ([]Tick, error)

	// Top returns the keys of a kind with the highest counts from one day to another.
	Top(ctx context.Context, id ID, kind KeyKind, from, to int64) ([]KeyCount, error)

	// Lists returns the lists of one day by their writers, FleetWriter's among them.
	Lists(ctx context.Context, id ID, day int64) (map[string]Lists, error)
}

// ErrFolded reports that another judge has folded meanwhile. The next round begins with what that one has stored.
var ErrFolded = errors.New("divergence: fold: another judge has folded meanwhile")

// ID names a policy in one of its epochs. Package promotion adds to Epoch the instant at which the evidence began, so
// that a resumed policy does not find its old counts.
type ID struct{ Policy, Epoch string }

// FleetWriter is the name under which folded hours and lists stand beside the lists of instances.
const FleetWriter = "~fleet"

// Lists are the most frequent keys by KeyKind.
type Lists [keyKinds][]KeyCount

func (l *Lists) any() bool {
	for kind := range l {
		if len(l[kind]) > 0 {
			return true
		}
	}
	return false
}

// Mark is the state of a ledger's folds.
type Mark struct {
	// Fold names the last fold, "" before the first.
	Fold string `json:"fold"`
	// Settled: the hours before this one have changed in no fold since Late.
	Settled int64 `json:"settled"`
	// Late names the last fold that changed a settled hour, or made fewer hours settled.
	Late string `json:"late"`
	// Days: of the days before this one FleetWriter's lists alone count.
	Days int64 `json:"days"`
}

// Page is a range of the fleet's hours.
type Page struct {
	Mark
	Hours []Hour
}

// Evidence is a range of hours, and all records with their last folded batches, by the names of the writers.
type Evidence struct {
	Page
	Records map[string]Record
	Acks    map[string]Ack
}

// unfolded returns the hours of all records that no fold has counted.
func (e *Evidence) unfolded() (hours []Hour) {
	for name, r := range e.Records {
		hours = append(hours, r.unfolded(e.Acks[name])...)
	}
	return hours
}

// Fold is a judge's work on a ledger.
type Fold struct {
	// Expect is the name of the fold that the judge has read, and Mark has this one's.
	Expect string
	Mark   Mark
	// Hours of the fleet, in place of those before.
	Hours []Hour
	// Lists of the fleet by day, in place of those before.
	Lists map[int64]Lists
	// Acks of writers, and the acks that are forgotten.
	Acks      map[string]Ack
	Forgotten []string
	// Removed are records, and lists of instances that are part of the fleet's now.
	Removed      []string
	RemovedLists map[int64][]string
}

// sortHours sorts hours of several observers. Merge asks for that.
func sortHours(hours []Hour) {
	slices.SortStableFunc(hours, func(a, b Hour) int { return cmp.Compare(a.Unix, b.Unix) })
}

// countedLists returns the lists of a day that count: those of the fleet, and those of writers that go on.
func countedLists(lists map[string]Lists, day int64, mark Mark, acks map[string]Ack) (counted []Lists) {
	for name, l := range lists {
		if name == FleetWriter || day >= mark.Days && acks[name].Ended == 0 {
			counted = append(counted, l)
		}
	}
	return counted
}
