package stages

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// unreadableLedger is a ledger whose hours cannot be read while it fails, as those of a large fleet within a short deadline.
// Its ticks can.
type unreadableLedger struct {
	evidence.Ledger
	fails bool
}

func (l *unreadableLedger) Hours(ctx context.Context, id evidence.ID, from, to int64) ([]evidence.Hour, error) {
	if l.fails {
		return nil, errors.New("i/o timeout")
	}
	return l.Ledger.Hours(ctx, id, from, to)
}

// canaryOf returns a controller of an automatic policy that has been a canary for two hours, and was in shadow for four
// days before.
func canaryOf(t *testing.T, ledger evidence.Ledger, now time.Time) (*Controller, State) {
	t.Helper()
	store := NewMemoryStore()
	spec := Spec{Policy: "p", Fingerprint: "e", Config: Config{Automatic: true}.WithDefaults()}
	state := State{
		Version: Version{Term: 1, Seq: 2}, Stage: Canary, Percent: 10, Fingerprint: "e",
		Since: now.Add(-4 * 24 * time.Hour), StageAt: now.Add(-2 * time.Hour), At: now.Add(-2 * time.Hour),
	}
	_, announced := store.Heartbeat(t.Context(), Heartbeat{Specs: []Spec{spec}})
	if err := errors.Join(announced, store.Put(t.Context(), "p", state, Condition{})); err != nil {
		t.Fatal(err)
	}
	return NewController(store, ledger, "controller"), state
}

// writeBurst counts 1,000 requests of 500 clients, of which a share is newly denied.
func writeBurst(t *testing.T, l evidence.Ledger, s State, at time.Time, share float64, enforced algorithms.Role) {
	t.Helper()
	r := evidence.NewRecorder(nil)
	for i := range 1000 {
		key := fmt.Sprint("client-", i%500)
		allow := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}
		o := [2]algorithms.Observation{allow, {Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: float64(i%500) >= 500*share}}}
		r.Observe(key, evidence.Hash("svc", "p", key), at, &o, &evidence.Setting{Cost: 1, Enforced: enforced})
	}

	if _, err := l.Add(t.Context(), s.LedgerID("p"), r.Batch(at, false)); err != nil {
		t.Fatal(err)
	}
}

// A burst of every day, which the gate has accepted, comes in the canary while the history cannot be read. It is no
// harm, whether the history was read before or never. A candidate that denies nearly everything is harm all the same.
func TestUnreadableHistoryMakesNothingUnusual(t *testing.T) {
	for _, tt := range []struct {
		name       string
		readBefore bool
		share      float64 // newly denied in today's burst, 0.15 on the days before
		want       Stage
	}{
		{"read before", true, 0.15, Canary},
		{"never read", false, 0.15, Canary},
		{"harm, read before", true, 0.9, RolledBack},
		{"harm, never read", false, 0.9, RolledBack},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { meetsBurst(t, tt.readBefore, tt.share, tt.want) })
		})
	}
}

// meetsBurst has a controller read three days with a burst, if readBefore, and then meet one of a share while it reads no history.
func meetsBurst(t *testing.T, readBefore bool, share float64, want Stage) {
	ledger := &unreadableLedger{Ledger: evidence.NewMemoryLedger()}
	c, s := canaryOf(t, ledger, time.Now().Add(3*24*time.Hour))
	for range 3 {
		writeBurst(t, ledger, s, time.Now(), 0.15, algorithms.Authoritative)
		time.Sleep(time.Hour)
		leader := evidence.NewReader(ledger, s.LedgerID("p"), s.Since)
		if _, err := leader.History(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := leader.Store(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23 * time.Hour)
	}
	if readBefore {
		if _, err := c.Assess(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // the next history needs another hour
	}

	writeBurst(t, ledger, s, time.Now(), share, algorithms.Candidate)
	time.Sleep(20 * time.Second)
	ledger.fails = true
	list, moves, err := c.Step(t.Context())
	if err != nil || list[0].Gate.Verdict != gate.Wait {
		t.Fatalf("%v %v: want a history that cannot be read", list[0].Gate, err)
	}
	more, err := c.CheckTriggers(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	stage := Canary
	for _, m := range append(moves, more...) {
		stage = m.State.Stage
	}
	if stage != want {
		t.Errorf("%s with moves %v %v, want %s", stage, moves, more, want)
	}
}

// An overload is seen by the ticks alone, because the minutes of the last quarter of an hour cannot be read either.
func TestOverloadIsSeenWithoutAHistory(t *testing.T) {
	now := time.Now()
	tick := evidence.Tick{
		Unix:    now.Unix()/evidence.TickSeconds - 1,
		Tally:   evidence.Tally{evidence.AgreeAllow: 500, evidence.NewlyAllowed: 400},
		Allowed: evidence.Weights{{Key: 1, Count: 40}, {Key: 2, Count: 40}, {Key: 3, Count: 40}},
	}
	recent := gate.Recent{Ticks: []evidence.Tick{tick}, UsualUnknown: true, StageAt: now, Now: now}
	if alarm := gate.Triggers(gate.Config{}.WithDefaults(), recent); alarm.Level != gate.RollBack {
		t.Error("no trigger: want overload")
	}
}
