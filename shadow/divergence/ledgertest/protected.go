package ledgertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// protected keys of two instances are counted exactly, in records, after folds, and in hours of days ago: strikes go by them for a week.
func protected(t *testing.T, l divergence.Ledger) {
	fleet := []*instance{{"a", divergence.NewRecorder(nil)}, {"b", divergence.NewRecorder(nil)}}
	judge := divergence.NewReader(l, id, start)

	// For two hours and a half each instance sees 30 keys in every minute. Those of 0 to 3 are protected, and lose each other request.
	const minutes = 150
	at := start
	for m := range minutes {
		at = start.Add(time.Duration(m) * time.Minute)
		for _, i := range fleet {
			for k := range 30 {
				i.request(k, at, m%2 == 0)
			}
			i.flush(t, l, id, at)
		}
		fold(t, judge, at)
	}
	checkProtected(t, history(t, l, id, at))

	for h := range 30 {
		now := at.Add(time.Duration(h) * time.Hour)
		for _, i := range fleet {
			i.flush(t, l, id, now)
		}
		fold(t, judge, now)
	}
	checkProtected(t, history(t, l, id, at.Add(29*time.Hour)))
}

// request observes a request of the key with this number. Those below 4 are protected.
func (i *instance) request(k int, at time.Time, lost bool) {
	key := fmt.Sprint(k)
	i.Observe(key, divergence.Hash("test", "p", key), at, &[2]algorithms.Observation{
		{Decision: algorithms.Decision{Allowed: true}}, {Decision: algorithms.Decision{Allowed: !lost}},
	}, &divergence.Setting{Cost: 1, Protected: k < 4})
}

// checkProtected asks for the hours of the protected keys: the first has ten minutes only.
func checkProtected(t *testing.T, h divergence.History) {
	t.Helper()
	lost := map[string][]int64{}
	for i := range h.Hours {
		for k := range h.Hours[i].Protected {
			key := &h.Hours[i].Protected[k]
			n := key.Total()
			if n[divergence.AgreeAllow] != n[divergence.NewlyDenied] || n.Denied() != 0 {
				t.Errorf("key %s has %v, want as many of both", key.Key, n)
			}
			lost[key.Key] = append(lost[key.Key], n[divergence.NewlyDenied])
		}
	}
	if got := fmt.Sprint(lost); got != "map[0:[10 60 60 20] 1:[10 60 60 20] 2:[10 60 60 20] 3:[10 60 60 20]]" {
		t.Errorf("the protected keys lost %s in the hours", got)
	}
}
