package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// joinsLists finds a judge that loses lists of frequent keys, or counts them twice, when a day is over or an instance is
// gone; and one that leaves a list for each instance behind.
func joinsLists(t *testing.T, l divergence.Ledger) {
	judge := divergence.NewReader(l, id, start)
	// One key at two instances: a list that is lost or counted twice changes its count.
	a, b := &instance{"a", divergence.NewRecorder(nil)}, &instance{"b", divergence.NewRecorder(nil)}
	for _, i := range []*instance{a, b} {
		i.observe("k", start, true, false)
		i.flush(t, l, id, start)
	}

	// The instance d is not among the ones that fold names as present, and goes on writing after its end. A judge takes
	// d for gone when its record has been the same for two minutes, so some folds come before that.
	gone := &instance{"d", divergence.NewRecorder(nil)}
	gone.observe("k", start, true, false)
	gone.flush(t, l, id, start)
	for m := range 5 {
		fold(t, judge, start.Add(time.Duration(m)*time.Minute))
	}

	// The lists are those of a, of b, and of the fleet, which has the counts of d. A list of d that stays
	// would be a fourth one.
	checkLists(t, l, "an instance is gone", 3, 3)

	// The record that d writes after its end must bring nothing back.
	if err := l.Write(context.Background(), id, gone.name, gone.Brief(start)); err != nil {
		t.Fatal(err)
	}
	checkLists(t, l, "it has woken", 3, 3)

	// The day is over, but for a margin: an hour is settled some hours after its end. Instance a goes on writing, and
	// has lists of the next day. They must not get into the list of the first one.
	for h := range 24 {
		now := start.Add(time.Duration(h) * time.Hour)
		a.flush(t, l, id, now)
		fold(t, judge, now)
	}
	checkLists(t, l, "the day is over", 3, 1)
}

// checkLists compares the counts of the one key, and the number of lists of the first day. Top finds a list that is
// lost or counts twice, Lists one that stays behind and would make a ledger grow with the number of instances.
func checkLists(t *testing.T, l divergence.Ledger, when string, count int64, lists int) {
	t.Helper()
	top, err := l.Top(context.Background(), id, divergence.KeysNewlyDenied, days(start), days(start))
	if err != nil || len(top) != 1 || top[0].Count != count {
		t.Errorf("%s: %v %v, want one key with %d", when, top, err, count)
	}
	all, err := l.Lists(context.Background(), id, days(start))
	if err != nil || len(all) != lists {
		t.Errorf("%s: %d lists %v, want %d", when, len(all), err, lists)
	}
}
