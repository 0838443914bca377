package shadow

import (
	"context"
	"hash/fnv"
	"time"
)

// How long an instance waits for another one that should judge a policy. A judge notes that it has
// judged every flushEvery.
const (
	standByAfter = 8 * time.Second
	// anyAfter is for an instance that is not named. A part of it differs between instances, so that one of them begins.
	anyAfter  = 30 * time.Second
	spreadFor = 15 * time.Second
)

// turns returns the migrations that this instance judges now.
func (f *fleet) turns(ctx context.Context) ([]*migration, error) {
	migrations := f.migrations()
	if f.alone || len(migrations) == 0 {
		return migrations, nil
	}
	judged, err := f.store.Judged(ctx, namesOf(migrations))
	if err != nil {
		return nil, err
	}

	var mine []*migration
	now := f.view.now()
	for n, m := range migrations {
		silent := now.Sub(judged[n].At).Abs() // a clock may have stepped back
		if judged[n].At.IsZero() {
			silent = time.Since(m.progress.started)
		}
		if silent >= f.patience(m, judged[n].By) {
			mine = append(mine, m)
		}
	}
	return mine, nil
}

// patience is how long this instance lets a policy be without a judgement, of which the last one is
// by an instance. The one that has stepped in goes on until the judge is back.
func (f *fleet) patience(m *migration, last string) time.Duration {
	var judge, standBy string
	if v := m.progress.recentVotes(); v != nil {
		judge, standBy = v.Judge, v.StandBy
	}
	switch f.id {
	case judge, last:
		return 0
	case standBy:
		return standByAfter
	}
	h := fnv.New64a()
	h.Write([]byte(f.id + m.spec.Policy))
	return anyAfter + time.Duration(h.Sum64()%uint64(spreadFor))
}

// isJudge reports whether this instance has judged the policy itself lately.
func (p *progress) isJudge() bool { return p.judging.judged.within(2 * assessEvery) }

// assessmentAge returns how long ago the last assessment was made.
func (p *progress) assessmentAge() time.Duration {
	if a := p.judging.assessment.Load(); a != nil {
		return time.Since(a.at)
	}
	return time.Since(p.started)
}
