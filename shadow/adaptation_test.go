package shadow

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
)

// adaptiveFile has one side that is adaptive, with a limit that shows its level.
func adaptiveFile(authoritative, candidate string) string {
	return `
version: 1
name: test
policies:
  - name: p
    key: request.user
    authoritative: { algorithm: gcra, limit: 64, window: 1d` + authoritative + ` }
    candidate: { algorithm: token_bucket, limit: 64, window: 1d` + candidate + ` }
`
}

const adaptiveRule = ", adaptive: { signal: latency_p99 }"

func openAdaptive(t testing.TB, text string, signal func() float64) *Harness {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Policies: set, Signal: signal, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serve has the service answer requests for some time, each after so long.
func serve(h *Harness, lasts, handler time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		h.Served(handler, false)
	}
}

// allowedOf returns how many requests of a new user each side allows.
func allowedOf(h *Harness, user string) (authoritative, candidate int) {
	for range 100 {
		d := h.Decide(context.Background(), &policies.Request{User: user})
		if d.Allowed {
			authoritative++
		}
		if d.Unenforced().Decision.Allowed {
			candidate++
		}
	}
	return authoritative, candidate
}

// A slow service gets a half of the limit, a service that is well again the whole, and the side that is not adaptive stays as it is
// all the time.
func TestLimitGivesWayAndReturns(t *testing.T) {
	for role, text := range []string{adaptiveFile(adaptiveRule, ""), adaptiveFile("", adaptiveRule)} {
		synctest.Test(t, func(t *testing.T) {
			h := openAdaptive(t, text, nil)
			defer h.Close(context.Background())

			for _, phase := range []struct {
				user    string
				lasts   time.Duration
				handler time.Duration
				want    int
			}{
				{"before", 20 * time.Second, 10 * time.Millisecond, 64},
				{"slow", 30 * time.Second, 600 * time.Millisecond, 32},
				{"well", 2 * time.Minute, 10 * time.Millisecond, 64},
			} {
				serve(h, phase.lasts, phase.handler)
				var sides [2]int
				sides[0], sides[1] = allowedOf(h, phase.user)
				if sides[role] != phase.want || sides[1-role] != 64 {
					t.Errorf("%s: the sides allow %v; the adaptive one, %d, should allow %d", phase.user, sides, role, phase.want)
				}
			}
		})
	}
}

// The service's own signal takes the place of durations. A panic in it is no signal, and harms nothing.
func TestSaturationGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Bool
		h := openAdaptive(t, adaptiveFile(", adaptive: { signal: saturation }", ""), func() float64 {
			if lost.Load() {
				panic("no signal")
			}
			return 0.9
		})
		defer h.Close(context.Background())

		time.Sleep(30 * time.Second)
		if n, _ := allowedOf(h, "saturated"); n != 32 {
			t.Errorf("a saturated service allows %d, want 32", n)
		}
		lost.Store(true)
		time.Sleep(5 * time.Minute)
		if n, _ := allowedOf(h, "lost"); n != 64 {
			t.Errorf("without a signal it allows %d, want 64", n)
		}
	})
}

// Requests that fail lower the limit as slow ones do: each tenth is more than 5 %.
func TestErrorsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openAdaptive(t, adaptiveFile("", ", adaptive: { signal: error_rate }"), nil)
		defer h.Close(context.Background())
		for i := range 300 {
			h.Served(time.Millisecond, i%10 == 0)
			time.Sleep(100 * time.Millisecond)
		}

		if authoritative, candidate := allowedOf(h, "failing"); authoritative != 64 || candidate != 16 {
			t.Errorf("the sides allow %d and %d, want 64 and 16", authoritative, candidate)
		}
	})
}

// A rule that needs a signal of the service is refused without it.
func TestSaturationNeedsASignal(t *testing.T) {
	set, err := policies.Load("test.yaml", []byte(adaptiveFile(", adaptive: { signal: saturation }", "")))
	if err != nil {
		t.Fatal(err)
	}
	if h, err := New(Config{Policies: set}); err == nil {
		h.Close(context.Background())
		t.Error("it was accepted")
	}
}

// The page, the command and an instance in an outage say how much of the limit holds. A count of the past says nothing.
func TestLevelIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openAdaptive(t, adaptiveFile("", adaptiveRule), nil)
		defer h.Close(context.Background())
		serve(h, 30*time.Second, 600*time.Millisecond)

		list, err := h.fleet.Judged(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		looked, err := stages.NewController(h.fleet.Store, h.fleet.Ledger, "a command").Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for form, list := range map[string][]stages.Assessment{"the page": list, "the command": looked} {
			p := status.WithoutKeys("test", list).Policies[0]
			if len(p.Levels) != 1 || p.Levels[0].Level == nil || *p.Levels[0].Level != 0.5 || p.Levels[0].SignalAt == nil {
				t.Errorf("%s has the levels %+v", form, p.Levels)
			}
		}

		if here := h.here().Policies[0].Levels; here != "candidate at 50 % of its limit" {
			t.Errorf("in an outage: %q", here)
		}
		if err := h.fleet.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		heard, err := h.fleet.Store.Heartbeat(t.Context(), stages.Heartbeat{})
		if err != nil || heard.Levels != nil {
			t.Errorf("levels of a minute ago: %v, %v", heard.Levels, err)
		}
	})
}

// BenchmarkDecideAdaptive measures what a decision pays for a level, of the whole limit and of a part.
func BenchmarkDecideAdaptive(b *testing.B) {
	file := strings.NewReplacer("limit: 64, window: 1d", "limit: 1000000000, window: 1m")
	for name, level := range map[string]adaptive.Level{"not adaptive": 0, "whole": adaptive.Full, "half": adaptive.Full / 2} {
		rule := adaptiveRule
		if level == 0 {
			rule = ""
		}
		h := openAdaptive(b, file.Replace(adaptiveFile("", rule)), nil)
		if a := h.engine.Plan.Load().Policies[0].Holdings()[1]; a != nil {
			a.Follow(map[string]adaptive.State{a.Key(): {Less: adaptive.Full - level}})
		}

		b.Run(name, func(b *testing.B) {
			r := &policies.Request{User: "ann"}
			b.ReportAllocs()
			for b.Loop() {
				h.Decide(context.Background(), r)
			}
		})
		h.Close(context.Background())
	}
}
