package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// toRest is how long a fleet may take to rest: an epoch takes over half a minute after a
// deployment, a killed process counts as live for 15 s, and a breaker may be open for 30 s.
const toRest = 100 * time.Second

// check lets the fleet rest, and holds everything that was promised.
func (s *soak) check(did []string) {
	s.t.Helper()
	state, votes, ok := s.awaitRest()
	if !ok {
		s.t.Errorf("round %d: after %s the store has %s of epoch %s, and the instances have %v, after %s",
			s.rounds, toRest, state, state.Epoch, votes, strings.Join(did, "; "))
		return
	}

	trail, err := s.store.History(s.t.Context(), "per-user")
	if err != nil {
		s.t.Error(err)
	}
	s.checkRollback(state, did)
	s.checkTrail(trail, did)
	s.checkButtons(did)
	ledger := s.checkBooks(trail, did)

	heaps := []string{}
	for _, one := range s.fleet {
		_, u := one.ask()
		one.usage = append(one.usage, u)
		heaps = append(heaps, fmt.Sprintf("%.1f/%d/%.0f", mebi(u.heap), u.goroutines, mebi(u.rss)))
	}
	s.progress(did, "%s of %.6s, %s, heap MiB/goroutines/RSS %s", state, state.Epoch, ledger, strings.Join(heaps, " "))
}

func mebi(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// awaitRest waits until every instance has applied the stored state, and the stored epoch is the
// one that most instances compare.
func (s *soak) awaitRest() (state promotion.State, votes map[string]int, ok bool) {
	late := time.After(toRest)
	for tick := time.Tick(500 * time.Millisecond); ; {
		if state, votes, ok = s.atRest(); ok {
			return state, votes, ok
		}
		select {
		case <-tick:
		case <-late:
			return state, votes, false
		}
	}
}

func (s *soak) atRest() (state promotion.State, votes map[string]int, ok bool) {
	now, err := s.store.Now(s.t.Context())
	if err != nil {
		return state, nil, false
	}
	all, err := s.store.Instances(s.t.Context())
	if err != nil {
		return state, nil, false
	}
	states, err := s.store.States(s.t.Context(), []string{"per-user"})
	if err != nil {
		return state, nil, false
	}

	state, votes, ok = states[0], map[string]int{}, true
	live, _ := promotion.LiveAt(now, "per-user", all)
	for _, i := range live {
		applied := i.Policies["per-user"]
		votes[applied.Epoch]++
		ok = ok && applied.Version == state.Version && now.Sub(i.At) < 3*time.Second
	}
	return state, votes, ok && len(live) == len(s.fleet) && votes[state.Epoch] > len(s.fleet)/2
}

// checkRollback: a rollback that every instance had applied stands until it is resumed, whatever
// Redis has lost.
func (s *soak) checkRollback(state promotion.State, did []string) {
	s.t.Helper()
	if s.stands != "" && state.Stage != promotion.RolledBack {
		s.t.Errorf("round %d: the rollback of %q is undone: %s, after %s", s.rounds, s.stands, state, strings.Join(did, "; "))
	}
	if state.Stage != promotion.RolledBack {
		return
	}
	for _, one := range s.fleet {
		if n := one.now.metric(s.t, "shadowlimit_stage", `stage="rolled_back"`); n != 1 {
			s.t.Errorf("round %d: process %d has not applied %s", s.rounds, one.number, state)
		}
	}
}

// checkTrail: the trail is in order, has every order that was acknowledged, and an epoch's evidence
// begins again only with a resumption.
func (s *soak) checkTrail(trail []promotion.State, did []string) {
	s.t.Helper()
	if s.lost {
		s.orders = nil
		return
	}
	for i := 1; i < len(trail); i++ {
		if !trail[i-1].Before(trail[i].Version) {
			s.t.Errorf("round %d: the trail has %s after %s", s.rounds, trail[i], trail[i-1])
		}
	}

	// A failover may have lost the orders of this round.
	if s.failedOver {
		s.orders = slices.DeleteFunc(s.orders, func(o soakOrder) bool { return !recorded(trail, o) })
		return
	}
	for _, o := range s.orders {
		if !recorded(trail, o) {
			s.t.Errorf("round %d: %q, %s, was acknowledged and is not in the trail, after %s", s.rounds, o.reason, o.text, strings.Join(did, "; "))
		}
	}
	for i := 1; i < len(trail); i++ {
		before, next := trail[i-1], trail[i]
		if next.Epoch == before.Epoch && !next.Since.Equal(before.Since) && before.Stage != promotion.RolledBack {
			s.t.Errorf("round %d: the evidence of %s began again: %s after %s", s.rounds, next.Epoch, next, before)
		}
	}
}

func recorded(trail []promotion.State, o soakOrder) bool {
	return slices.ContainsFunc(trail, func(s promotion.State) bool { return s.Reason == o.reason })
}

// checkButtons: no order of a red button is left, because Redis answers.
func (s *soak) checkButtons(did []string) {
	s.t.Helper()
	for _, one := range s.fleet[:s.current] {
		if _, text := one.now.get(s.t, "/red-button", ""); !strings.Contains(text, `"not_stored":[]`) {
			s.t.Errorf("round %d: orders of the red button of %d are left: %s, after %s", s.rounds, one.number, text, strings.Join(did, "; "))
		}
	}
}

// checkBooks compares the ledger with what the processes have counted in this round, and says how.
func (s *soak) checkBooks(trail []promotion.State, did []string) string {
	s.t.Helper()
	var least, most int64
	for _, one := range s.fleet {
		n := one.countedLast()
		least += one.least + n
		most += one.most + n
		one.base = n
	}
	counted, surely := most-s.most, least-s.least-s.losable(trail)
	s.least, s.most = least, most
	switch {
	case s.lost: // of the processes before; each of the others writes its open hours again
		surely = -s.written
	case s.failedOver && (s.departed || s.closedHour()): // what was written last, and not again
		surely = min(surely, 0)
	}

	// Processes write every few seconds.
	before := s.written
	s.written = s.awaitLedger(before+surely, before+counted)
	n := s.written - before
	if n > counted || n < surely {
		s.t.Errorf("round %d: the ledger has %d evaluations more, the processes have counted %d, and may have lost %d, after %s",
			s.rounds, n, counted, counted-surely, strings.Join(did, "; "))
	}
	if n == counted {
		s.exact++
	}
	return fmt.Sprintf("ledger %+d of %d, at least %d", n, counted, surely)
}

// awaitLedger waits until the ledger has a number of evaluations, or has stopped growing for as
// long as processes take to write. It returns the number it has.
func (s *soak) awaitLedger(least, most int64) (n int64) {
	var grown time.Time
	for tick := time.Tick(time.Second); ; <-tick {
		now := s.inLedger()
		if now != n || grown.IsZero() {
			n, grown = now, time.Now()
		}
		if n >= most || n >= least && time.Since(grown) > mayLose || time.Since(grown) > 3*mayLose {
			return n
		}
	}
}

// closedHour reports whether an hour has ended in this round: a failover may then lose what no
// process writes again.
func (s *soak) closedHour() bool {
	return s.failedOver && s.from.Unix()/3600 != time.Now().Unix()/3600
}

// losable is how much of what the processes have counted the ledger may not have, because the
// evidence began again: each process may then lose what it has not written yet.
func (s *soak) losable(trail []promotion.State) (n int64) {
	n = int64(s.reloads) // a request under way during a reload
	for i, state := range trail {
		if state.At.Before(s.from) || i > 0 && state.Since.Equal(trail[i-1].Since) {
			continue
		}
		for _, one := range s.fleet {
			from, to := one.before(state.At.Add(-mayLose)).sent, one.before(state.At.Add(mayLose)).sent
			if one.disturbed {
				from, to = 0, one.sent.Load()-one.mark
			}
			n += to - from
		}
	}
	return n
}

// checkLeft: processes that have ended as a deployment ends them are not listed. Those that were
// killed are, and have been silent for a while.
func (s *soak) checkLeft() {
	s.t.Helper()
	now, err := s.store.Now(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	all, err := s.store.Instances(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range all {
		if now.Sub(i.At) < 3*time.Second {
			s.t.Errorf("%s is listed after all have ended", i.ID)
		}
	}
}

// inLedger is the number of all evaluations in the ledger, of every epoch.
func (s *soak) inLedger() (n int64) {
	s.t.Helper()
	prefix := "shadowlimit:{" + s.name + ":per-user}:ledger:"
	epochs := map[string]bool{}
	keys := s.client.Scan(s.t.Context(), 0, prefix+"*", 1000).Iterator()
	for keys.Next(s.t.Context()) {
		// What an instance has counted stands in its record before it is an hour of the fleet.
		for _, kind := range []string{":hour:", ":open"} {
			if epoch, _, found := strings.Cut(strings.TrimPrefix(keys.Val(), prefix), kind); found {
				epochs[epoch] = true
			}
		}
	}
	if err := keys.Err(); err != nil {
		s.t.Error(err)
	}

	now := time.Now()
	for epoch := range epochs {
		id := divergence.ID{Policy: "per-user", Epoch: epoch}
		h, err := divergence.NewReader(s.ledger, id, now.Add(-24*time.Hour)).History(s.t.Context(), now)
		if err != nil {
			s.t.Error(err)
		}
		n += h.Total().Evaluations()
	}
	return n
}

// leastRests is how many rests of one process show whether it grows: fewer than four in a third may
// all fall on a moment of open connections.
const leastRests = 14

// checkGrowth holds that no process of this release has grown from the first third of its rests to
// the last. The first two are not counted: a process warms up.
func (s *soak) checkGrowth() {
	for _, one := range s.fleet {
		rests := slices.DeleteFunc(slices.Clone(one.usage), func(u usage) bool { return u.pid != one.now.cmd.Process.Pid })
		if len(rests) < leastRests {
			fmt.Printf("soak: process %d rested %d times, too few to say whether it grows\n", one.number, len(rests))
			continue
		}
		for what, of := range measures {
			first, last, grows := grown(rests[2:], of)
			fmt.Printf("soak: process %d, %d rests: %s from %d to %d\n", one.number, len(rests), what, first, last)
			if grows {
				s.t.Errorf("process %d: %s grows from %d to %d", one.number, what, first, last)
			}
		}
	}
}

// measure is something that must not grow by more than a part of itself and some more.
type measure struct {
	of   func(usage) int64
	part float64
	more int64
}

var measures = map[string]measure{
	"heap":       {func(u usage) int64 { return u.heap }, 0.1, 1 << 20},
	"goroutines": {func(u usage) int64 { return u.goroutines }, 0, 2},
	"RSS":        {func(u usage) int64 { return u.rss }, 0.3, 8 << 20},
}

// grown compares the greatest value of the first third with the least one of the last third: what
// goes up and down does not grow.
func grown(rests []usage, m measure) (first, last int64, grows bool) {
	third := len(rests) / 3
	first, last = m.of(rests[0]), m.of(rests[len(rests)-1])
	for i := range third {
		first = max(first, m.of(rests[i]))
		last = min(last, m.of(rests[len(rests)-1-i]))
	}
	return first, last, float64(last) > float64(first)*(1+m.part)+float64(m.more)
}

// A soak finds what grows a little with each round, and takes no noise for growth.
func TestGrowthIsFound(t *testing.T) {
	var leaks, swings []usage
	for i := range int64(30) {
		leaks = append(leaks, usage{heap: 5<<20 + i*200<<10, goroutines: 40 + i/4})
		swings = append(swings, usage{heap: 5<<20 + i%7*900<<10, goroutines: 40 + i%9})
	}
	for _, what := range []string{"heap", "goroutines"} {
		if first, last, grows := grown(leaks, measures[what]); !grows {
			t.Errorf("%s: no growth from %d to %d", what, first, last)
		}
		if first, last, grows := grown(swings, measures[what]); grows {
			t.Errorf("%s: growth from %d to %d", what, first, last)
		}
	}
}
