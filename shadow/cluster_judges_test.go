package shadow

import (
	"context"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

func (l *link) Specs(ctx context.Context) ([]promotion.Spec, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.primary.Specs(ctx)
}

func (l *link) NoteJudged(ctx context.Context, j promotion.Judgement, list []promotion.Published) error {
	if err := l.pass(); err != nil {
		return err
	}
	if err := l.write(func(s promotion.Store) error { return s.NoteJudged(ctx, j, list) }); err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(p promotion.Published) bool { return p.Judge != "" }) {
		l.checkEvidence("a judge published", j.By)
	}
	return l.lost()
}

func (l *link) Judged(ctx context.Context, policies []string) ([]promotion.Judgement, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.primary.Judged(ctx, policies)
}

func (l *link) Assessments(ctx context.Context, policies []string) ([]promotion.Published, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.primary.Assessments(ctx, policies)
}

func (l *link) Details(ctx context.Context, policies []string) ([]*promotion.Details, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.primary.Details(ctx, policies)
}

// evidence is the ledger as an instance reads it.
type evidence struct {
	divergence.Ledger
	link *link
}

func (e *evidence) Slots(ctx context.Context, id divergence.ID, from, since int64) ([]divergence.Slot, int64, error) {
	e.link.read = time.Now()
	return e.Ledger.Slots(ctx, id, from, since)
}

// checkEvidence holds what an instance does against when it read the evidence for that.
func (l *link) checkEvidence(what, by string) {
	if old := time.Since(l.read); old > 30*time.Second {
		l.t.Errorf("I12: %s by evidence of %s before: %s", what, old, by)
	}
}

// freeze stops an instance in the middle of what it does, while the others go on or are stopped with it.
func (m *fleetModel) freeze() {
	seconds := rapid.IntRange(31, 90).Draw(m.t, "stopped for s")
	if rapid.Bool().Draw(m.t, "all are stopped") {
		time.Sleep(time.Duration(seconds) * time.Second)
		return
	}
	m.rest(seconds)
}

// judgeOne has an instance do its round, two of them perhaps at once.
func (m *fleetModel) judgeOne() { m.judge(m.someNode()) }

func (m *fleetModel) judge(n *node) {
	m.alone(n, func(ctx context.Context) { _ = n.fleet.round(ctx) })
}

// stopJudge stops an instance while it judges, whether or not it is its turn. What it finds may be harm.
func (m *fleetModel) stopJudge() {
	n := m.someNode()
	if rapid.Bool().Draw(m.t, "the candidate does harm") {
		m.within(func(ctx context.Context) {
			_, _ = promotion.Resume(ctx, m.link(), "p", promotion.Order{Actor: "operator", Force: true})
			_, _ = promotion.Advance(ctx, m.link(), "p", promotion.Step{Stage: promotion.Promoted}, promotion.Order{Actor: "operator"})
		})
		m.rest(2)
		m.harm()
	}

	n.link.freezesIn = rapid.IntRange(1, 10).Draw(m.t, "stops at call")
	m.alone(n, func(ctx context.Context) { _ = n.fleet.assess(ctx, []string{"p"}) })
	n.link.freezesIn = 0
}

// harm lets the candidate deny the requests of many clients on each instance that enforces it.
func (m *fleetModel) harm() {
	for _, n := range m.nodes {
		m.alone(n, func(ctx context.Context) {
			for hash := range uint64(60) {
				if n.enforced(at(hash)) == 1 {
					newlyDenied(n.migration, hash)
				}
			}
			_ = n.fleet.flush(ctx)
		})
	}
}

// checkJudged: a policy is judged while its instances reach the store.
func (m *fleetModel) checkJudged() {
	judged, _ := m.primary.Judged(context.Background(), []string{"p"})
	if old := time.Since(judged[0].At); old > 15*time.Second && m.stored().Stage != "" {
		m.t.Errorf("I11: the policy was judged %s ago, by %q", old, judged[0].By)
	}
}

func byController(s promotion.State) bool { return strings.HasPrefix(s.Actor, "controller ") }
