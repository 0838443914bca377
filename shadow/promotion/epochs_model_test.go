package promotion

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// epochsModel is instances of three epochs whose files, connections and store change at
// random. A is promoted at the beginning.
type epochsModel struct {
	*crew
	t      *rapid.T
	lossy  bool            // the store has lost writes
	lost   bool            // A did not have the majority all along, or was rolled back
	failed map[string]bool // epochs whose rollback was answered
}

// instances of one epoch, as far as they can have a vote.
func (m *epochsModel) votes() map[string]int {
	votes := map[string]int{}
	for _, i := range m.list {
		if !i.idle {
			votes[i.epoch]++
		}
	}
	return votes
}

// note keeps what can be asked of the end. Of what the store and the instances that reach it
// know, one state supersedes the others, and it must be A's stage or remember it. It does not
// where data is lost while the instances that knew the stage are cut off.
func (m *epochsModel) note() {
	votes := m.votes()
	last := m.state()
	for _, i := range m.list {
		if !i.cut && i.applied.Supersedes(last) {
			last = i.applied
		}
	}

	past := last.recall("A", last.At)
	knows := past.Stage == Promoted || last.Epoch == "A" && last.Stage == Promoted
	if votes["A"] <= votes["B"] || votes["A"] <= votes["C"] || !knows {
		m.lost = true
	}
}

func (m *epochsModel) some() *member {
	return m.list[rapid.IntRange(0, len(m.list)-1).Draw(m.t, "instance")]
}

func (m *epochsModel) someEpoch() string {
	return rapid.SampledFrom([]string{"A", "A", "B", "B", "C"}).Draw(m.t, "epoch")
}

func (m *epochsModel) startOne() {
	if len(m.list) == 6 {
		return
	}
	i := m.start(m.someEpoch())[0]
	i.idle = rapid.IntRange(0, 3).Draw(m.t, "idle at 3") == 3
}

func (m *epochsModel) endOne() {
	if len(m.list) == 1 {
		return
	}
	if i := m.some(); rapid.Bool().Draw(m.t, "crashes") {
		i.crash()
	} else {
		i.leave()
	}
}

func (m *epochsModel) reloadOne() {
	if i := m.some(); !i.cut && !m.store.away {
		i.reload(m.someEpoch())
	}
}

func (m *epochsModel) cutOrHeal()    { i := m.some(); i.cut = !i.cut }
func (m *epochsModel) goAwayOrBack() { m.store.away = !m.store.away }

func (m *epochsModel) loseWrites() {
	m.lossy = true
	m.store.failOver(rapid.SampledFrom([]int{1, 3, 20, 1 << 30}).Draw(m.t, "lost writes"))
}

func (m *epochsModel) order() {
	if s := m.state(); m.store.away || s.Stage == "" {
		return
	}
	if rapid.Bool().Draw(m.t, "rollback") {
		m.crew.rollback()
		m.failed[m.state().Epoch], m.lost = true, true
		return
	}
	before := m.state()
	if _, err := Resume(context.Background(), m.store, "p", Order{Force: true}); err == nil && before.Stage == RolledBack {
		delete(m.failed, before.Epoch)
	}
}

func (m *epochsModel) passSome() {
	if rapid.Bool().Draw(m.t, "reversed") {
		slices.Reverse(m.list)
	}
	m.pass(rapid.IntRange(1, 20).Draw(m.t, "s"))
}

// rest lets the fleet rest, and compares what it has come to.
func (m *epochsModel) rest() {
	m.store.away = false
	for _, i := range m.list {
		i.cut = false
	}
	m.note()
	m.pass(80)
	s := m.state()
	m.pass(60)
	if now := m.state(); !now.Equal(s) {
		m.Errorf("no rest: from %s %s to %s %s", s, s.Epoch, now, now.Epoch)
	}

	votes := m.votes()
	most, ahead := 0, 0
	for _, n := range votes {
		switch {
		case n > most:
			most, ahead = n, 1
		case n == most:
			ahead++
		}
	}
	if votes[s.Epoch] < most && ahead == 1 {
		m.Errorf("at rest with %s %s, and the votes are %v", s, s.Epoch, votes)
	}
	if m.failed[s.Epoch] && s.Stage != RolledBack && !m.lossy {
		m.Errorf("%s was rolled back, and is at %s", s.Epoch, s)
	}
	if !m.lost && (s.Epoch != "A" || s.Stage != Promoted) {
		m.Errorf("A had the majority all along, and the state is %s %s", s, s.Epoch)
	}
	for _, i := range m.list {
		if i.applied.compare(s) != 0 {
			m.Errorf("%s has applied %+v, the store has %+v", i.id, i.applied, s)
		}
	}
}

// The fleet ends with the epoch that most instances compare, where that epoch was: in spite
// of lost data, outages, cut-off instances, strays and crashes.
func TestEpochsBelongToTheMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			m := &epochsModel{crew: &crew{failer: t, store: newFailing()}, t: t, failed: map[string]bool{}}
			m.start("AAAA"[:rapid.IntRange(1, 4).Draw(t, "instances")])
			m.pass(1)
			m.promote()
			m.pass(7)

			action := func(do func()) func(*rapid.T) { return func(*rapid.T) { do() } }
			t.Repeat(map[string]func(*rapid.T){
				"":             action(m.note),
				"time":         action(m.passSome),
				"more time":    action(m.passSome),
				"start":        action(m.startOne),
				"end":          action(m.endOne),
				"reload":       action(m.reloadOne),
				"cut or heal":  action(m.cutOrHeal),
				"away or back": action(m.goAwayOrBack),
				"lose writes":  action(m.loseWrites),
				"order":        action(m.order),
			})
			m.rest()
		})
	})
}
