package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// replayed replays events between two limits of a fixed window and of another algorithm, an hour long.
func replayed(t *testing.T, events *replay.Events, from, to algorithms.Side) *replay.Report {
	t.Helper()
	from.ID, to.ID = "from", "to"
	report, err := replay.Run(context.Background(), events, replay.Config{Policy: "p", Pair: memory(), Sides: [2]algorithms.Side{from, to}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func sideOf(a algorithms.Algorithm, requests, burst int64) algorithms.Side {
	return algorithms.Side{Algorithm: a, Limit: algorithms.Limit{Requests: requests, Window: time.Minute, Burst: burst}}
}

// Each side's denials are counted for all requests and for each key, and those of them that no wait would end.
func TestReplayCountsDenialsBeforeAndAfter(t *testing.T) {
	var events replay.Events
	const minute = 1_700_000_040_000_000
	for range 10 {
		events.Add(minute, []byte("a"), 1) // 6 pass before, 3 after
	}
	events.Add(minute, []byte("b"), 7) // passes neither, ever
	events.Add(minute, []byte("c"), 4) // passes the authoritative alone
	events.Add(minute, []byte("c"), 0) // a look is no request

	p := &replayed(t, &events, sideOf(algorithms.FixedWindow{}, 6, 0), sideOf(algorithms.FixedWindow{}, 3, 0)).Policies[0]
	before, after := 5.0/12, 9.0/12
	want := replay.Denials{
		Authoritative: replay.SideDenials{Requests: 5, Share: &before, Keys: 2, Never: 1},
		Candidate:     replay.SideDenials{Requests: 9, Share: &after, Keys: 3, Never: 2},
		LargestCost:   7,
	}
	if !reflect.DeepEqual(p.Denied, want) {
		t.Errorf("%+v, want %+v", p.Denied, want)
	}

	worst := replay.KeyHarm{KeyCount: evidence.KeyCount{Key: "a", Count: 3}, Requests: 10, DeniedBefore: 4, DeniedAfter: 7}
	if len(p.TopNewlyDenied) != 2 || p.TopNewlyDenied[0] != worst {
		t.Errorf("%+v, want first %+v", p.TopNewlyDenied, worst)
	}
	if texts := p.Denied.NeverTexts(); len(texts) != 2 || !strings.Contains(texts[1], "2 requests ") {
		t.Errorf("%q", texts)
	}
}

// The most frequent cause stands first.
func TestReplayNamesTheCause(t *testing.T) {
	for _, one := range []struct {
		name     string
		from, to algorithms.Side
		cause    evidence.Cause
	}{
		{"half the limit",
			sideOf(algorithms.FixedWindow{}, 20, 0), sideOf(algorithms.FixedWindow{}, 10, 0), evidence.LimitValue},
		{"a small burst",
			sideOf(algorithms.FixedWindow{}, 20, 0), sideOf(algorithms.TokenBucket{}, 20, 4), evidence.BurstShape},
		{"a window that slides",
			sideOf(algorithms.FixedWindow{}, 20, 0), sideOf(algorithms.SlidingWindowLog{}, 20, 0), evidence.WindowBoundary},
	} {
		// Bursts at the end of each second minute, and at the begin of the next.
		var events replay.Events
		for i := range int64(20) {
			for at := range int64(35) {
				events.Add(1_700_000_040_000_000+i*120e6+(at+42)*1e6, []byte("key"), 1)
			}
		}

		p := &replayed(t, &events, one.from, one.to).Policies[0]
		if len(p.CausesNewlyDenied) == 0 || p.CausesNewlyDenied[0] != (status.Cause{Cause: one.cause.String(), Count: p.NewlyDenied}) {
			t.Errorf("%s: %+v, want %d by %s", one.name, p.CausesNewlyDenied, p.NewlyDenied, one.cause)
		}
	}
}

// Causes explain every difference once, and the report fits a terminal, whatever is replayed.
func TestReportAddsUpAndFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, cfg := drawSweep(t)
		cfg.Pair = memory()
		report, err := replay.Run(context.Background(), events(nil), cfg)
		if err != nil {
			t.Fatal(err)
		}

		p := &report.Policies[0]
		sum := func(list []status.Cause) (n int64) {
			for _, c := range list {
				n += c.Count
			}
			return n
		}
		if denied, allowed := sum(p.CausesNewlyDenied), sum(p.CausesNewlyAllowed); denied != p.NewlyDenied || allowed != p.NewlyAllowed {
			t.Fatalf("causes of %d and %d, differences %d and %d", denied, allowed, p.NewlyDenied, p.NewlyAllowed)
		}
		more := p.NewlyDenied + p.ExpectedDenied - p.NewlyAllowed - p.ExpectedAllowed
		if d := p.Denied; d.Candidate.Requests-d.Authoritative.Requests != more {
			t.Fatalf("%+v: want %d more by the candidate", d, more)
		}

		var text bytes.Buffer
		if err := report.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Fatalf("%d columns: %s", n, fmt.Sprintf("%q", line))
			}
		}
	})
}
