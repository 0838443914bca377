package divergence

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"
)

const (
	// goneAfter is how long the record of an instance without a beat must have been the same: the instance may only have been
	// cut off together with all others, and it writes again before this time is over.
	goneAfter = 2 * time.Minute
	// endedHours is how long a ledger remembers that a writer ended.
	endedHours = 24
	// topFolded is how many keys of each kind and day the fleet's lists have: more than instances write, so that a key that
	// is in few lists does not get lost.
	topFolded = 200
)

// sightings is what a reader remembers for its folds.
type sightings struct {
	seen map[string]sighting // of records, by writers
}

// sighting is since when a record has been the same.
type sighting struct {
	batch, seq int64
	at         time.Time
}

// Fold adds what instances have counted to the fleet's hours, and to the fleet's lists of days that are over. Call it about
// once a minute with the store's time and the names of all instances that may still write: of the others it folds everything.
//
// Any number of judges may fold one ledger. A fold that another one has overtaken stores nothing and is no error. After an
// error the fold may be stored: the next one finds that out.
func (r *Reader) Fold(ctx context.Context, now time.Time, present []string) error {
	e, err := r.ledger.Evidence(ctx, r.id, 0, -1)
	if err != nil {
		return err
	}

	f := r.newFolder(&e, now)
	f.foldRecords(r.judge.departed(&e, now, present))
	f.forget()
	if err := f.foldHours(ctx); err != nil {
		return err
	}
	if err := f.foldDays(ctx); err != nil {
		return err
	}

	if !f.finish() {
		return nil
	}
	if err := r.ledger.Fold(ctx, r.id, &f.Fold); err != nil && !errors.Is(err, ErrFolded) {
		return err
	}
	return nil
}

// departed returns the writers that write no more: of instances that are gone, and of earlier incarnations.
func (j *sightings) departed(e *Evidence, now time.Time, present []string) map[string]bool {
	// A recorder that begins again takes a higher number, so of one instance only the newest writer goes on.
	newest := map[string]int64{}
	for name := range e.Records {
		w := parseWriter(name)
		newest[w.Instance] = max(newest[w.Instance], w.Incarnation)
	}

	// A record has no time of its own. Its age is counted from the first sighting of this judge, and begins again
	// when the clock goes back.
	seen, departed := map[string]sighting{}, map[string]bool{}
	for name, record := range e.Records {
		s, known := j.seen[name]
		if !known || s.batch != record.Batch || s.seq != record.Seq || now.Before(s.at) {
			s = sighting{record.Batch, record.Seq, now}
		}
		seen[name] = s

		w := parseWriter(name)
		gone := !slices.Contains(present, w.Instance) || w.Incarnation < newest[w.Instance]
		departed[name] = gone && now.Sub(s.at) >= goneAfter
	}

	// A writer without a record has nothing that a fold could take too early, so it is not watched first.
	for name := range e.Acks {
		if _, writes := e.Records[name]; !writes {
			departed[name] = !slices.Contains(present, parseWriter(name).Instance)
		}
	}

	j.seen = seen
	return departed
}

// folder makes a fold.
type folder struct {
	Fold
	reader *Reader
	e      *Evidence
	hour   int64
	oldest int64 // first hour of the evidence that the ledger keeps
	added  map[int64]*Hour
	ended  []string // writers that end with this fold
	late   bool
}

// newFolder begins a fold of the evidence. Its mark only goes on, except where the clock went back or data was lost.
func (r *Reader) newFolder(e *Evidence, now time.Time) *folder {
	hour := now.Unix() / SecondsPerHour
	f := &folder{reader: r, e: e, hour: hour, oldest: r.first(hour), added: map[int64]*Hour{}}
	f.Expect, f.Mark = e.Fold, e.Mark
	f.Acks, f.Lists = map[string]Ack{}, map[int64]Lists{}
	f.RemovedLists = map[int64][]string{}

	// By a clock that went back, fewer hours are over. After a loss of data, readers begin again.
	f.Mark.Settled = hour - closedAfter + 1
	f.late = f.Expect == "" || f.Mark.Settled < e.Settled
	f.Mark.Days = min(f.Mark.Days, f.Mark.Settled/HoursPerDay)
	return f
}

// foldRecords adds the sealed batches, and all records of departed writers.
func (f *folder) foldRecords(departed map[string]bool) {
	for name, record := range f.e.Records {
		ack := f.e.Acks[name]
		switch {
		case ack.Ended > 0: // a zombie has written it
			f.Removed = append(f.Removed, name)
		case departed[name]:
			f.add(record.unfolded(ack))
			f.Removed = append(f.Removed, name)
			f.end(name)
		case record.Batch > ack.Batch:
			f.add(record.Sealed)
			f.Acks[name] = Ack{Batch: record.Batch}
		}
	}

	// Only writers that have ended are forgotten. Without an end the ack of a writer that has lost its record would
	// stay.
	for name, ack := range f.e.Acks {
		if _, writes := f.e.Records[name]; !writes && ack.Ended == 0 && departed[name] {
			f.end(name)
		}
	}
}

// end ends a writer. Where its process wakes later, nothing that it writes counts.
func (f *folder) end(name string) {
	f.Acks[name] = Ack{Ended: f.hour}
	f.ended = append(f.ended, name)
}

// add notes hours of a batch. Batches of several writers have the same hours, which become one.
func (f *folder) add(hours []Hour) {
	for i := range hours {
		unix := hours[i].Unix
		if f.added[unix] == nil {
			f.added[unix] = &Hour{Unix: unix}
		}
		f.added[unix].join(&hours[i])

		// Readers keep settled hours. They read them again when the mark names a late fold.
		f.late = f.late || unix < f.e.Settled
	}
}

// forget drops the writers that ended long ago, which bounds their number. An ack stays as long as its writer has a
// record: without the ack that record would count once more.
func (f *folder) forget() {
	for name, ack := range f.e.Acks {
		if _, writes := f.e.Records[name]; !writes && ack.Ended > 0 && f.hour-ack.Ended > endedHours {
			f.Forgotten = append(f.Forgotten, name)
		}
	}
}

// foldHours makes the fleet's hours of the ones that are stored and the added ones.
func (f *folder) foldHours(ctx context.Context) error {
	// The hours of a fold replace the stored ones, so an hour to which something is added must be read, too.
	hours := make([]int64, 0, len(f.added))
	for unix := range f.added {
		hours = append(hours, unix)
	}
	slices.Sort(hours)

	// These reads are as old as the evidence or newer. Where another judge has folded in between, this fold fails.
	for len(hours) > 0 {
		n := 1
		for n < len(hours) && n < readHours && hours[n] == hours[n-1]+1 {
			n++
		}
		page, err := f.reader.ledger.Hours(ctx, f.reader.id, hours[0], hours[n-1])
		if err != nil {
			return err
		}
		for i := range page.Hours {
			f.added[page.Hours[i].Unix].join(&page.Hours[i]) // the range has no other hours
		}
		hours = hours[n:]
	}

	return nil
}

// foldDays makes one list of all of a day that is over, and of writers that end.
func (f *folder) foldDays(ctx context.Context) error {
	// One day that is over is joined in each fold, which bounds the fold. A writer that ends may have lists of every
	// day that is open.
	from, over := max(f.Mark.Days, f.oldest/HoursPerDay), f.Mark.Settled/HoursPerDay
	last := from - 1
	if from < over {
		last = from
	}
	if len(f.ended) > 0 {
		last = f.hour / HoursPerDay
	}

	for day := from; day <= last; day++ {
		all, err := f.reader.ledger.Lists(ctx, f.reader.id, day)
		if err != nil {
			return err
		}
		f.joinDay(day, all, day < over)
	}
	f.Mark.Days = max(f.Mark.Days, min(last+1, over))
	return nil
}

// joinDay joins the lists of writers that end, and all of them where the day is over.
func (f *folder) joinDay(day int64, all map[string]Lists, over bool) {
	var joined []Lists
	for name, lists := range all {
		// The list of a closed day, or of a writer that had ended, is in the fleet's list already. It is removed and
		// not joined.
		counts := day >= f.e.Days && f.e.Acks[name].Ended == 0
		switch {
		case name == FleetWriter:
			joined = append(joined, lists)
		case over, slices.Contains(f.ended, name), !counts:
			f.RemovedLists[day] = append(f.RemovedLists[day], name)
			if counts {
				joined = append(joined, lists)
			}
		}
	}

	if len(f.RemovedLists[day]) > 0 {
		f.Lists[day] = mergeLists(joined)
	}
}

// mergeLists joins the frequent keys of a day, each kind by itself.
func mergeLists(all []Lists) (merged Lists) {
	for kind := range merged {
		var lists [][]KeyCount
		for i := range all {
			lists = append(lists, all[i][kind])
		}
		merged[kind] = MergeTop(topFolded, lists...)
	}
	return merged
}

// finish names the fold, and reports whether there is anything to store.
func (f *folder) finish() bool {
	for _, h := range f.added {
		f.Hours = append(f.Hours, *h)
	}
	sortHours(f.Hours)

	// A fold makes concurrent reads begin again, so one that changes nothing is not stored.
	if f.Mark == f.e.Mark && len(f.Hours)+len(f.Lists)+len(f.Acks)+len(f.Forgotten)+len(f.Removed) == 0 {
		return false
	}

	// The name is drawn. After a failover that takes a fold back, a number would come twice, and a judge that has read
	// the lost fold would pass for up to date.
	f.Mark.Fold = rand.Text()
	if f.late {
		f.Mark.Late = f.Mark.Fold
	}
	return true
}
