package main

import (
	"context"
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/shadowlimit/shadowlimit/examples/exampletest"
)

// The tests run in a synctest bubble. Its clock advances only in time.Sleep.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAfterAnswersAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair, err := newPair()
		if err != nil {
			t.Fatal(err)
		}
		defer exampletest.Close(t, pair)

		was := before(&limiters{}, http.HandlerFunc(hello))
		is := newHandler(pair)
		alice := exampletest.From("192.0.2.1", http.MethodGet, "/")

		bursts := []struct {
			pause time.Duration // before the burst
			want  int           // allowed of 12
		}{
			{0, 10}, {3 * time.Second, 3}, {time.Minute, 10},
		}
		for i, burst := range bursts {
			time.Sleep(burst.pause)
			old := exampletest.Allowed(t, was, 12, alice)
			new := exampletest.Allowed(t, is, 12, alice)
			if old != burst.want || new != burst.want {
				t.Errorf("burst %d: %d allowed before, %d after, want %d", i, old, new, burst.want)
			}
		}

		want := map[string]int{"agree_allow": 5 + 3 + 5, "newly_denied": 5 + 5, "agree_deny": 2 + 9 + 2}
		if got := exampletest.Outcomes(t, pair, policy); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

func TestCandidateDecidesWhilePromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair, err := newPair()
		if err != nil {
			t.Fatal(err)
		}
		defer exampletest.Close(t, pair)

		h := newHandler(pair)
		exampletest.Promote(t, pair, policy)
		if got := exampletest.Allowed(t, h, 12, exampletest.From("192.0.2.2", http.MethodGet, "/")); got != 5 {
			t.Errorf("promoted: %d allowed, want the candidate's 5", got)
		}

		exampletest.Rollback(t, pair, policy)
		if got := exampletest.Allowed(t, h, 12, exampletest.From("192.0.2.3", http.MethodGet, "/")); got != 10 {
			t.Errorf("rolled back: %d allowed, want the authoritative's 10", got)
		}
	})
}

func TestRunEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := run(ctx, "localhost:0"); err != nil {
		t.Error(err)
	}
}
