package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// peerDecision is what a limiter of somebody else's decided, as it says itself.
type peerDecision struct {
	at      time.Time
	request policies.Request
	allowed bool
}

// peerModel is a policy file of examples/models, which decides as a peer does.
type peerModel struct {
	set  *policies.Set
	pair *algorithms.Memory
}

func newPeerModel(t *testing.T, name string) *peerModel {
	t.Helper()
	set, err := policies.LoadFile(filepath.Join("..", "examples", "models", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return &peerModel{set, algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})}
}

// allows charges a request under every policy that matches it.
func (m *peerModel) allows(t *testing.T, r *policies.Request, at time.Time) bool {
	t.Helper()
	allowed := true
	for _, c := range m.checks(t, r) {
		c.At = at
		allowed = m.judge(t, c).Allowed && allowed
	}
	return allowed
}

// charges returns the checks of a request. A request that is charged nothing is a mistake of the test.
func (m *peerModel) checks(t *testing.T, r *policies.Request) (checks []algorithms.Check) {
	t.Helper()
	for _, p := range m.set.Policies {
		c, matches, err := p.Check(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		if matches {
			checks = append(checks, c)
		}
	}
	if checks == nil {
		t.Fatalf("no policy matches %+v", r)
	}
	return checks
}

func (m *peerModel) judge(t *testing.T, c algorithms.Check) algorithms.Decision {
	t.Helper()
	var o [1][2]algorithms.Observation
	if err := m.pair.Evaluate(context.Background(), []algorithms.Check{c}, o[:]); err != nil {
		t.Fatal(err)
	}
	side := o[0][algorithms.Authoritative]
	if side.Status != algorithms.Judged {
		t.Fatal(side.Err)
	}
	return side.Decision
}

// agreement counts the decisions of a peer that its model makes, too.
type agreement struct{ equal, edge, all, denied int }

func (a agreement) String() string {
	return fmt.Sprintf("%d of %d decisions are equal (%.2f %%), %d at the edge of a tick of the clock; %d are denials",
		a.equal, a.all, 100*float64(a.equal)/float64(a.all), a.edge, a.denied)
}

// add adds what was found of one more decision, or of many.
func (a *agreement) add(more agreement) {
	a.equal += more.equal
	a.edge += more.edge
	a.all += more.all
	a.denied += more.denied
}

// clockError is how far a peer's log may be off: it has milliseconds of the wall clock, and the peer decides by another one.
const clockError = 2 * time.Millisecond

// follow compares each decision of a peer with the model's after the same history. The file must have one policy a path.
func (m *peerModel) follow(t *testing.T, decisions []peerDecision) map[string]agreement {
	t.Helper()
	found := map[string]agreement{}
	for i := range decisions {
		d := &decisions[i]
		a := found[d.request.Path]
		a.add(m.compare(t, d, clockError))
		found[d.request.Path] = a
	}
	return found
}

// compare lets the model say what it would decide, and then charges what the peer has charged. A decision that differs lies at
// the edge if the model makes it a little earlier or later.
func (m *peerModel) compare(t *testing.T, d *peerDecision, edge time.Duration) (one agreement) {
	t.Helper()
	one.all = 1
	if !d.allowed {
		one.denied = 1
	}

	if m.would(t, d, 0) == d.allowed {
		m.allows(t, &d.request, d.at)
		one.equal = 1
		return one
	}

	if d.allowed && m.would(t, d, edge) || !d.allowed && !m.would(t, d, -edge) {
		one.edge = 1
	}
	if d.allowed {
		m.allows(t, &d.request, d.at.Add(edge))
	}
	return one
}

// would reports whether the first policy that matches a request would allow it. It is charged nothing.
func (m *peerModel) would(t *testing.T, d *peerDecision, later time.Duration) bool {
	t.Helper()
	c := m.checks(t, &d.request)[0]
	cost := c.Cost
	c.Cost, c.At = 0, d.at.Add(later)
	return m.judge(t, c).Remaining >= cost
}

// peerTest is a peer that must decide as its model does.
type peerTest struct {
	model string
	ask   func() []peerDecision
	paths []string
}

// run asks the peer up to three times until nothing is wrong. A busy machine may stop a peer between its clock and its decision; a
// model that is wrong is wrong each time.
func (p *peerTest) run(t *testing.T) {
	t.Helper()
	for tries := 1; ; tries++ {
		problem := p.problem(t)
		if problem == "" {
			return
		}

		if tries == 3 {
			t.Fatal(problem)
		}
		t.Log(problem)
	}
}

// problem asks the peer once, and names the first difference from its model; "" for none.
func (p *peerTest) problem(t *testing.T) string {
	t.Helper()
	decisions := p.ask()
	return disagreement(t, newPeerModel(t, p.model).follow(t, decisions), p.paths)
}

// disagreement says what is wrong where there are not enough decisions of both kinds on every path, or where not nearly every
// difference lies at the edge of a millisecond. How many requests meet such an edge is chance: about two of a thousand.
func disagreement(t *testing.T, found map[string]agreement, paths []string) string {
	t.Helper()
	var total agreement
	for _, path := range paths {
		a := found[path]
		t.Log(path, a)
		if a.denied < 10 || a.all-a.denied < 10 {
			return fmt.Sprintf("%s: %s: want 10 of each kind, so that agreement means something", path, a)
		}
		total.add(a)
	}

	t.Log("together", total)
	elsewhere := total.all - total.equal - total.edge
	switch {
	case 200*elsewhere > total.all:
		return fmt.Sprintf("%s: %d differ elsewhere, want 0.5 %% at most", total, elsewhere)
	case float64(total.equal) < 0.99*float64(total.all):
		return fmt.Sprintf("%s, want 99 %%", total)
	}
	return ""
}
