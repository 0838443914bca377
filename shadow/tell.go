package shadow

import (
	"context"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// tellLoop counts votes until ctx is over; see promotion.Teller. It is a loop of its own,
// because a store that is slow with the evidence must not make gaps between the counts.
func (f *fleet) tellLoop(ctx context.Context) {
	tell := task{what: "count votes", do: f.tell}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(jittered(promotion.TellEvery)):
		}
		f.run(ctx, &tell)
	}
}

// tell counts the votes if it is this instance's turn, and takes over the count, whichever instance has made it.
func (f *fleet) tell(ctx context.Context) error {
	f.telling.Lock()
	defer f.telling.Unlock()
	count, moves, err := f.teller.Tell(ctx)
	f.logMoves(moves)
	if err != nil {
		f.followLevels(nil)
		return err
	}

	// Levels come back by themselves where no teller counts.
	now := f.view.now()
	age := now.Sub(count.At).Abs()
	f.followLevels(count.RecentLevels(now))
	if count.Changes != 0 {
		f.told.set(time.Now().Add(-age))
	}

	// Limits are divided by this number where a store fails. Without a recent count the last number
	// stands: a smaller one would let every instance allow more.
	if age < promotion.LiveFor {
		f.view.live.Store(int64(max(1, count.Live)))
		f.view.counted.Store(true)
	}

	// The count has the policies of all instances; this one follows its own.
	for _, m := range f.migrations() {
		if v, counted := count.Policies[m.spec.Policy]; counted && age < oldAfter {
			m.stage.votes.Store(&votes{v, time.Now()})
		}
	}
	return nil
}

// votes are the last count, as heard of at an instant of this process's clock.
type votes struct {
	promotion.Votes
	at time.Time
}

// recentVotes returns the last votes, nil if they are old.
func (p *progress) recentVotes() *votes {
	if v := p.stage.votes.Load(); v != nil && time.Since(v.at) < oldAfter {
		return v
	}
	return nil
}

// hasDecided reports whether this instance has decided a request since it started, so that it
// has a vote. Requires polling.
func (f *fleet) hasDecided() bool {
	for _, m := range f.plan.Load().migrations {
		if f.decided {
			return true
		}
		f.decided = m.recorder.Totals().Decisions != [2]divergence.Decisions{} || m.counts.fellBack()
	}
	return f.decided
}

// handOver lets the epoch with most votes take over at once, where a reload of this
// instance has ended the comparison of the stored one. It is called after the beat, which
// the other instances and this function count. Requires polling.
func (f *fleet) handOver(ctx context.Context, migrations []*migration) error {
	var left []string
	for _, m := range migrations {
		if m.news.replaces != "" && m.stage.state.Load().Epoch == m.news.replaces {
			left = append(left, m.spec.Policy)
		}
	}

	moves, err := promotion.HandOver(ctx, f.store, left, f.id)
	f.logMoves(moves)
	if err != nil {
		return err
	}
	for _, m := range migrations {
		m.news.replaces = ""
	}
	if len(moves) > 0 {
		_, err = f.applyStates(ctx, migrations)
	}
	return err
}

// leave takes this instance off the fleet's list. The last one of a stored epoch hands it
// over to the epoch with most votes.
func (f *fleet) leave(ctx context.Context) error {
	if err := f.store.Leave(ctx, f.id); err != nil {
		return err
	}

	// Only a policy whose stored epoch is this instance's own can be without an instance now.
	var left []string
	for _, m := range f.migrations() {
		if m.stage.state.Load().Epoch == m.spec.Epoch {
			left = append(left, m.spec.Policy)
		}
	}
	moves, err := promotion.HandOver(ctx, f.store, left, f.id)
	f.logMoves(moves)
	if err != nil {
		return err
	}
	return f.teller.Leave(ctx)
}

// differs reports whether the fleet compares another epoch than this instance.
func (m *migration) differs() bool {
	stored := m.stage.state.Load().Epoch
	return stored != "" && stored != m.spec.Epoch
}

// noteEpoch logs that the fleet compares another epoch than this instance, and the end of
// that: a line for each change, with the policy file of this instance if it has one. Requires polling.
func (m *migration) noteEpoch(file string) {
	// "" stands for no difference, so that its end is a change as well.
	stored := m.stage.state.Load().Epoch
	if !m.differs() {
		stored = ""
	}
	if stored == m.news.other {
		return
	}
	m.news.other = stored

	// Of several files on one machine an operator looks for the one that was not deployed.
	attrs := []any{"policy", m.spec.Policy, "epoch", m.spec.Epoch}
	if file != "" {
		attrs = append(attrs, "file", file)
	}
	switch {
	case stored == "":
		m.log.Info("shadowlimit: the fleet compares what this instance compares; it follows the stage again", attrs...)
	case m.stage.completed.Load():
		m.log.Warn("shadowlimit: the fleet has another policy file than this instance, which goes on enforcing "+
			"the candidate that it has completed", append(attrs, "fleet_epoch", stored)...)
	default:
		m.log.Warn("shadowlimit: the fleet has another policy file than this instance, which enforces the authoritative; "+
			"an epoch takes over when most instances that decide requests have had it for half a minute",
			append(attrs, "fleet_epoch", stored)...)
	}
}
