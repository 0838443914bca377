package divergence

import (
	"slices"
	"time"
)

const (
	// sealEvery is the least time between two batches: a fold costs the same for any number of counts.
	sealEvery = 45 * time.Second
	// mostOpenHours bounds a batch where no judge folds. It is not by the clock: an instance that was suspended, or whose clock
	// went back, has hours that are far apart.
	mostOpenHours = 2 * openHours
	// forgottenAfter is how long a writer may not have written before it begins as another one. It is less than a ledger
	// remembers the end of a writer, so a process that was suspended for days counts nothing twice.
	forgottenAfter = endedHours / 2 * time.Hour
)

// batches are what a recorder has taken from its stripes and no judge has folded yet. The recorder's flush guards them.
//
// Counts are in one place at a time: a stripe, open, or sealed. While it is not known whether the last record was written,
// that record is repeated, and the stripes keep the new counts. So an instance that a judge has taken for gone drops what it had
// written, and nothing else.
type batches struct {
	record    Record    // as it was written last; Open is still joined to
	sealed    time.Time // when the last batch was sealed, at first when the recorder began
	written   time.Time // when a record was last written
	acked     int64
	repeating bool // the last record may be written or not
}

// take adds hours to the open ones. It keeps nothing of the caller's: counts are joined, not shared.
func (b *batches) take(hours map[int64]*Hour) {
	for unix, h := range hours {
		i, found := slices.BinarySearchFunc(b.record.Open, unix, func(h Hour, unix int64) int { return int(h.Unix - unix) })
		if !found {
			b.record.Open = slices.Insert(b.record.Open, i, Hour{Unix: unix})
		}
		b.record.Open[i].join(h)
	}
	b.drop()
}

func (b *batches) next(now time.Time) Record {
	// The first batch waits like all others: a fold of a few seconds costs as much as one of a minute.
	if b.sealed.IsZero() {
		b.sealed = now
	}

	// A batch is sealed when the one before is folded. A clock that went back must not keep it from that.
	since := now.Sub(b.sealed)
	if b.record.Batch <= b.acked && len(b.record.Open) > 0 && (since >= sealEvery || since < 0) {
		b.record.Batch++
		b.record.Sealed = b.record.Open
		b.record.Open = nil
		b.sealed = now
	}

	// The record counts as not written until a Commit says otherwise. After an error the same one has to be written
	// again.
	b.record.Seq++
	b.repeating = true
	return b.shown()
}

// shown returns the record with open hours of its own: the recorder goes on joining to them.
func (b *batches) shown() Record {
	r := b.record
	r.Open = make([]Hour, len(r.Open))
	for i := range r.Open {
		r.Open[i].Unix = b.record.Open[i].Unix
		r.Open[i].join(&b.record.Open[i])
	}
	return r
}

// drop forgets the first open hours beyond the bound: no judge has folded for hours.
func (b *batches) drop() {
	if more := len(b.record.Open) - mostOpenHours; more > 0 {
		b.record.Open = slices.Delete(b.record.Open, 0, more)
	}
}

// forgotten reports whether a ledger may have forgotten that this writer ended. Without a written record there is
// nothing that a judge could have ended.
func (b *batches) forgotten(now time.Time) bool {
	return !b.written.IsZero() && now.Sub(b.written) > forgottenAfter
}
