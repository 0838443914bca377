package shadow

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// harmFile has a candidate that denies a plan nearly everything. That is an evaluated limit, and so no new fingerprint. The tenant
// is in each canary, which is the worst case.
const harmFile = `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 1000000, window: 1h }
    candidate: { algorithm: gcra, limit: 'request.headers[?"x-plan"].orValue("") == "trial" ? 1 : 1000000', window: 1h }
promotion:
  mode: automatic
  first: key[0] == "acme"
  protect: [acme]
`

// harmWorld is a fleet of three harnesses, with one ledger and one store of stages. Each process counts for itself. It runs in a
// bubble of synctest.
type harmWorld struct {
	fleet  []*Harness
	states stages.Store
	asked  int
}

func newHarmWorld(t *testing.T) *harmWorld {
	set, err := policies.Load("test.yaml", []byte(harmFile), stages.Check)
	if err != nil {
		t.Fatal(err)
	}

	w, ledger := &harmWorld{states: stages.NewMemoryStore()}, evidence.NewMemoryLedger()
	for n := range 3 {
		h := &Harness{unwatch: func() {}}
		cfg := instanceConfig{name: set.Name, id: fmt.Sprint("i", n), log: slog.New(slog.DiscardHandler)}
		h.instance = assemble(cfg, engine.NewOn(set.Name, []*engine.Store{engine.NewMemoryStore()}, nil), shared{store: w.states, ledger: ledger})
		first, err := h.planOf(set, &engine.Plan{})
		if err != nil {
			t.Fatal(err)
		}
		h.use(first)
		if err := h.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.fleet = append(w.fleet, h)
	}
	return w
}

func (w *harmWorld) close() {
	for _, h := range w.fleet {
		_ = h.Close(context.Background())
	}
}

func (w *harmWorld) state(t *testing.T) stages.State {
	states, err := w.states.States(t.Context(), []string{"per-user"})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

// harmTraffic is the traffic of a service: a request each gap, one of every from the tenant, the others from 200 clients.
type harmTraffic struct {
	every  int
	gap    time.Duration
	broken bool // the candidate denies the tenant nearly everything
}

// run sends requests to the instances in turn, and ends early once the candidate is rolled back.
func (w *harmWorld) run(t *testing.T, tr harmTraffic, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); w.asked++ {
		time.Sleep(tr.gap)
		r := &policies.Request{User: fmt.Sprint("user-", w.asked%200), Headers: http.Header{}}
		if w.asked%tr.every == 0 {
			r.User = "acme"
			if tr.broken {
				r.Headers.Set("X-Plan", "trial")
			}
		}
		w.fleet[w.asked*7/3%len(w.fleet)].Decide(t.Context(), r)

		if w.asked%50 == 0 && w.state(t).Stage == stages.RolledBack {
			return
		}
	}
}

// exposed takes the candidate to a step, lets it be well for a while at 100 requests a second, and then breaks it for the tenant. It
// returns how long it takes until the fleet rolls it back by itself, at most five minutes.
func exposed(t *testing.T, step stages.Step, tr harmTraffic, well time.Duration) (took time.Duration, s stages.State) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarmWorld(t)
		defer w.close()
		tr.gap = 10 * time.Millisecond
		w.run(t, tr, 20*time.Second)
		if _, err := stages.Advance(t.Context(), w.states, "per-user", step, stages.Order{}); err != nil {
			t.Fatal(err)
		}

		w.run(t, tr, well)
		if s = w.state(t); s.Stage == stages.RolledBack {
			return
		}
		began := time.Now()
		tr.broken = true
		w.run(t, tr, 5*time.Minute)
		took, s = time.Since(began), w.state(t)
	})
	return took, s
}

var (
	harmCanary   = stages.Step{Stage: stages.Canary, Percent: 1}
	harmPromoted = stages.Step{Stage: stages.Promoted}
)

// A fleet rolls a candidate back within two minutes that denies a protected tenant everything: with 0.3, 1.5 and 30 % of the requests,
// in the smallest canary and promoted.
func TestHarmedTenantIsRolledBack(t *testing.T) {
	for _, tt := range []struct {
		every int
		well  time.Duration
	}{{333, 2 * time.Minute}, {67, 5 * time.Minute}, {3, 2 * time.Minute}} {
		for _, step := range []stages.Step{harmCanary, harmPromoted} {
			took, s := exposed(t, step, harmTraffic{every: tt.every}, tt.well)
			if s.Stage != stages.RolledBack || took <= 0 || took > 2*time.Minute || !strings.HasPrefix(s.Reason, "protected key acme lost") {
				t.Errorf("one of %d requests, %s: %s after %s for %q, want rolled back within two minutes",
					tt.every, step.Stage, s.Stage, took, s.Reason)
			}
		}
	}
}

// In shadow the same harm is found before it reaches a client: a protected tenant that lost too much keeps the candidate from its next step.
func TestHarmIsFoundInShadow(t *testing.T) {
	for _, tt := range []struct {
		tr   harmTraffic
		lost bool
	}{
		{harmTraffic{every: 333, gap: 50 * time.Millisecond, broken: true}, true},
		{harmTraffic{every: 67, gap: 50 * time.Millisecond}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarmWorld(t)
			defer w.close()
			time.Sleep(time.Hour) // the first window of a candidate that begins fresh is no evidence
			w.run(t, harmTraffic{every: tt.tr.every, gap: tt.tr.gap}, 20*time.Minute)
			w.run(t, tt.tr, 40*time.Minute)
			time.Sleep(30 * time.Second)

			list, err := inside.Assess(t.Context(), w.fleet[0])
			if err != nil {
				t.Fatal(err)
			}
			g := &list[0].Gate
			lost := slices.ContainsFunc(g.Conditions, func(c gate.Condition) bool { return c.Name == "protected keys" && !c.Met })
			if g.Verdict == gate.Pass || lost != tt.lost || list[0].State.Stage != stages.Shadow {
				t.Errorf("%+v: %s, %+v; a key has lost too much: want %t", tt.tr, g.Verdict, g.Conditions, tt.lost)
			}
		})
	}
}
