package shadow

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// harmFile has a candidate that denies tenants of a plan nearly everything. That is an evaluated limit, and so no new epoch. The tenants
// are in each canary, which is the worst case.
const harmFile = `
version: 1
name: test
data: { tenants: [acme, tenant-0, tenant-1, tenant-2, tenant-3, tenant-4] }
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 1000000, window: 1h }
    candidate: { algorithm: gcra, limit: 'request.headers[?"x-plan"].orValue("") == "trial" ? 1 : 1000000', window: 1h }
promotion:
  mode: automatic
  first: key[0] in data.tenants
  %s
`

const (
	harmByProtect = "protect: { keys: 'key[0] in data.tenants', losing: 5% }"
	harmByClients = "client_harm: { losing: 10%, of_at_least: 50, within: 1h, clients: 0.5% }"
)

// harmWorld is a fleet of three harnesses, with one ledger and one store of stages. Each process counts for itself. It runs in a
// bubble of synctest.
type harmWorld struct {
	fleet  []*Harness
	states promotion.Store
	asked  int
}

func newHarmWorld(t *testing.T, rule string) *harmWorld {
	set, err := policies.Load("test.yaml", fmt.Appendf(nil, harmFile, rule), CheckPromotion)
	if err != nil {
		t.Fatal(err)
	}

	w, ledger := &harmWorld{states: promotion.NewMemoryStore()}, divergence.NewMemoryLedger()
	for n := range 3 {
		h := &Harness{unwatch: func() {}}
		h.instance, err = newInstance(instanceConfig{name: set.Name, id: fmt.Sprint("i", n), log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		cfg := h.fleet.fleetConfig
		cfg.store, cfg.ledger, cfg.alone = w.states, ledger, false
		h.fleet = newFleet(cfg)
		first, err := h.planOf(set, &plan{})
		if err != nil {
			t.Fatal(err)
		}
		h.start(first)
		w.fleet = append(w.fleet, h)
	}
	return w
}

func (w *harmWorld) close() {
	for _, h := range w.fleet {
		_ = h.Close(context.Background())
	}
}

func (w *harmWorld) state(t *testing.T) promotion.State {
	states, err := w.states.States(t.Context(), []string{"per-user"})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

// harmTraffic is the traffic of a service: a request each gap, one of every from each tenant in turn, the others from 200 clients.
type harmTraffic struct {
	tenants []string
	every   int
	gap     time.Duration
	broken  bool // the candidate denies the tenants nearly everything
}

var oneTenant, fiveTenants = []string{"acme"}, []string{"tenant-0", "tenant-1", "tenant-2", "tenant-3", "tenant-4"}

// run sends requests to the instances in turn, and ends early once the candidate is rolled back.
func (w *harmWorld) run(t *testing.T, tr harmTraffic, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); w.asked++ {
		time.Sleep(tr.gap)
		r := &policies.Request{User: fmt.Sprint("user-", w.asked%200), Headers: http.Header{}}
		if n := w.asked % tr.every; n < len(tr.tenants) {
			r.User = tr.tenants[n]
			if tr.broken {
				r.Headers.Set("X-Plan", "trial")
			}
		}
		w.fleet[w.asked*7/3%len(w.fleet)].Decide(t.Context(), r)

		if w.asked%50 == 0 && w.state(t).Stage == promotion.RolledBack {
			return
		}
	}
}

// exposed takes the candidate to a step, lets it be well for a while at 100 requests a second, and then breaks it for the tenants. It
// returns how long it takes until the fleet rolls it back by itself, at most five minutes.
func exposed(t *testing.T, rule string, step promotion.Step, tr harmTraffic, well time.Duration) (took time.Duration, s promotion.State) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarmWorld(t, rule)
		defer w.close()
		tr.gap = 10 * time.Millisecond
		w.run(t, tr, 20*time.Second)
		if _, err := promotion.Advance(t.Context(), w.states, "per-user", step, promotion.Order{}); err != nil {
			t.Fatal(err)
		}

		w.run(t, tr, well)
		if s = w.state(t); s.Stage == promotion.RolledBack {
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
	harmCanary   = promotion.Step{Stage: promotion.Canary, Percent: 1}
	harmPromoted = promotion.Step{Stage: promotion.Promoted}
)

// A fleet rolls a candidate back within two minutes that denies a protected tenant everything, or too many clients: with 0.3, 1.5 and 30 %
// of the requests, in the smallest canary and promoted.
func TestHarmedClientsAreRolledBack(t *testing.T) {
	tests := map[string]struct {
		rule   string
		tr     harmTraffic
		well   time.Duration
		reason string
	}{
		"protect, 0.3 %":     {harmByProtect, harmTraffic{tenants: oneTenant, every: 333}, 2 * time.Minute, "protected key acme lost"},
		"protect, 1.5 %":     {harmByProtect, harmTraffic{tenants: oneTenant, every: 67}, 5 * time.Minute, "protected key acme lost"},
		"protect, 30 %":      {harmByProtect, harmTraffic{tenants: oneTenant, every: 3}, 2 * time.Minute, "protected key acme lost"},
		"client_harm, 0.3 %": {harmByClients, harmTraffic{tenants: fiveTenants, every: 333}, 4 * time.Minute, "clients are harmed: "},
		"client_harm, 1.5 %": {harmByClients, harmTraffic{tenants: fiveTenants, every: 67}, 5 * time.Minute, "clients are harmed: "},
	}

	for name, tt := range tests {
		for _, step := range []promotion.Step{harmCanary, harmPromoted} {
			took, s := exposed(t, tt.rule, step, tt.tr, tt.well)
			t.Logf("%s, %s: %s after %s: %s", name, step.Stage, s.Stage, took, s.Reason)
			if s.Stage != promotion.RolledBack || took <= 0 || took > 2*time.Minute || !strings.HasPrefix(s.Reason, tt.reason) {
				t.Errorf("%s, %s: %s after %s for %q, want rolled back within two minutes for %q",
					name, step.Stage, s.Stage, took, s.Reason, tt.reason)
			}
		}
	}
}

// In shadow the same harm is found before it reaches a client: an hour of a protected tenant is a strike, and too many harmed clients
// keep the verdict from pass. An hour without harm is neither.
func TestHarmIsFoundInShadow(t *testing.T) {
	const lost = "protected key acme lost"
	for name, tt := range map[string]struct {
		rule    string
		tr      harmTraffic
		strikes int
		reason  string
	}{
		"protect, 0.3 %":     {harmByProtect, harmTraffic{tenants: oneTenant, every: 333, broken: true}, 1, lost},
		"client_harm, 0.3 %": {harmByClients, harmTraffic{tenants: fiveTenants, every: 333, broken: true}, 0, "of the active clients lost"},
		"protect, well":      {harmByProtect, harmTraffic{tenants: oneTenant, every: 67}, 0, ""},
		"client_harm, well":  {harmByClients, harmTraffic{tenants: fiveTenants, every: 67}, 0, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarmWorld(t, tt.rule)
			defer w.close()
			tr := tt.tr
			tr.gap = 50 * time.Millisecond
			w.run(t, harmTraffic{tenants: tr.tenants, every: tr.every, gap: tr.gap}, 20*time.Minute)
			w.run(t, tr, 40*time.Minute)
			time.Sleep(30 * time.Second)

			list, err := w.fleet[0].Assess(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			g := &list[0].Gate
			text := ""
			for _, o := range g.Obstacles {
				if o.Kind == gate.ProtectedLost || o.Kind == gate.ClientsHarmed {
					text += fmt.Sprint(o.Kind, o.Text)
				}
			}
			if g.Strikes != tt.strikes || g.Verdict == gate.Pass ||
				!strings.Contains(text, tt.reason) || (text != "") != (tt.reason != "") || list[0].State.Stage != promotion.Shadow {
				t.Errorf("%s: %d strikes, %s, %q; want %d and %q", name, g.Strikes, g.Verdict, text, tt.strikes, tt.reason)
			}
		})
	}
}
