package ledgertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// clients finds a ledger that does not join the counts of one client over instances, batches, folds and hours, or that keeps
// them for longer than a day, which they would fill.
func clients(t *testing.T, l divergence.Ledger) {
	fleet := []*instance{{"a", divergence.NewRecorder(nil)}, {"b", divergence.NewRecorder(nil)}}
	judge := divergence.NewReader(l, id, start)

	// For two hours and a half each instance sees 30 clients in every minute. The protected one and four others lose half
	// of their requests.
	const minutes = 150
	at := start
	for m := range minutes {
		at = start.Add(time.Duration(m) * time.Minute)
		for _, i := range fleet {
			for k := range 30 {
				i.client(k, at, m%2 == 0 && k%7 == 0)
			}
			i.flush(t, l, id, at)
		}
		fold(t, judge, at)
	}

	// A client of both instances is one client: its counts are of both.
	checkClients(t, history(t, l, id, at), map[string]divergence.ClientCount{
		"0": {Requests: 2 * minutes, Allowed: 2 * minutes, Lost: minutes}, "1": {Requests: 2 * minutes, Allowed: 2 * minutes},
	})

	// A day later only the protected key has counts, which lost enough. The gate strikes by it for a week, and by other clients
	// for a day.
	for h := range 30 {
		now := at.Add(time.Duration(h) * time.Hour)
		for _, i := range fleet {
			i.flush(t, l, id, now)
		}
		fold(t, judge, now)
	}
	// The entries themselves are looked at: a reader that leaves old clients out would hide a ledger that keeps them.
	page, err := l.Hours(context.Background(), id, start.Unix()/divergence.SecondsPerHour, at.Unix()/divergence.SecondsPerHour)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range page.Hours {
		if len(h.Clients.List) > 0 || len(h.Protected.List) > 1 || h.Minutes[0].Tally.Comparisons() == 0 {
			t.Errorf("an old hour has %d clients, %d protected keys and %v, want the counts and at most one protected key",
				len(h.Clients.List), len(h.Protected.List), h.Minutes[0].Tally)
		}
	}
	checkProtected(t, history(t, l, id, at.Add(29*time.Hour)))
}

// client observes a request of the client with this number. Those of 0 are protected.
func (i *instance) client(k int, at time.Time, lost bool) {
	key := fmt.Sprint(k)
	i.Observe(key, divergence.Hash("test", "p", key), at, &[2]algorithms.Observation{
		{Decision: algorithms.Decision{Allowed: true}}, {Decision: algorithms.Decision{Allowed: !lost}},
	}, &divergence.Setting{Cost: 1, Protected: k == 0})
}

// checkClients compares some clients by their names. Only clients that lose have one, so the others are found by their counts.
func checkClients(t *testing.T, h divergence.History, want map[string]divergence.ClientCount) {
	t.Helper()
	var sum divergence.Clients
	for i := range h.Hours {
		sum.Join(&h.Hours[i].Clients, divergence.SampledClients)
	}
	// A client more is one that two instances have under two hashes, and a client fewer is one that a fold has lost.
	if len(sum.List) != 30 {
		t.Errorf("%d clients, want 30", len(sum.List))
	}

	for i := range sum.List {
		c := &sum.List[i]
		name := "1"
		if c.Name != "" {
			name = "0"
		}
		if c.Total() != want[name] {
			t.Errorf("client %q has %+v, want %+v", c.Name, c.Total(), want[name])
		}
	}
}

// checkProtected asks for the hours in which the protected key lost enough: two whole ones and a third of one. The first hour has
// ten minutes only. Strikes go by these counts for a week, so they outlive the day of the others, after every fold and under the
// bound of the list.
func checkProtected(t *testing.T, h divergence.History) {
	t.Helper()
	var lost []int64
	for i := range h.Hours {
		for k := range h.Hours[i].Protected.List {
			if c := &h.Hours[i].Protected.List[k]; c.Name == "0" {
				lost = append(lost, c.Total().Lost)
			}
		}
	}
	// 60 minutes of two instances, in which every second request of each is lost.
	if fmt.Sprint(lost) != "[60 60 20]" {
		t.Errorf("the protected key lost %v in the hours that are kept, want 60, 60 and 20", lost)
	}
}
