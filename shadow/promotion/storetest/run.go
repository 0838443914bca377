// Package storetest is the conformance suite of stores of stages: whoever passes
// it may be behind a fleet.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Run checks a store, which open returns fresh and empty.
func Run(t *testing.T, open func(t *testing.T) promotion.Store) {
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) { law.check(t, open(t)) })
	}
}

const policy = "tenant-writes"

var laws = []struct {
	name  string
	check func(*testing.T, promotion.Store)
}{
	{"a policy without a state has the zero state", zeroState},
	{"what is put is what is read, in the trail too", roundTrip},
	{"with an expected version only that one is replaced", compareAndSet},
	{"without one only a state that supersedes the stored one is put", supersedes},
	{"of concurrent promotions exactly one wins", oneWins},
	{"a rollback wins over concurrent promotions", rollbackWins},
	{"a rollback that is ensured is not lost, and a resumption after it stands", ensureRollback},
	{"no forward step while on hold", hold},
	{"what was rolled back is resumed by force or in another epoch", resume},
	{"a new epoch starts in shadow and leaves a rollback alone", epochs},
	{"watchers hear of a change", watch},
	{"instances are heard of, and leave", instances},
	{"policies are announced", specs},
}

func ctx(t *testing.T) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return c
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func begin(t *testing.T, s promotion.Store) {
	t.Helper()
	if err := promotion.Begin(ctx(t), s, policy, "e1", "test"); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, s promotion.Store) promotion.State {
	t.Helper()
	return must[[]promotion.State](t)(s.States(ctx(t), []string{policy}))[0]
}

func order(reason string) promotion.Order { return promotion.Order{Actor: "test", Reason: reason} }

var canary = promotion.Step{Stage: promotion.Canary, Percent: 10}

func zeroState(t *testing.T, s promotion.Store) {
	if got := read(t, s); got != (promotion.State{}) {
		t.Errorf("got %+v", got)
	}
	if _, err := promotion.Rollback(ctx(t), s, policy, order("")); !errors.Is(err, promotion.ErrUnknownPolicy) {
		t.Errorf("rollback of nothing: %v, want ErrUnknownPolicy", err)
	}
}

func roundTrip(t *testing.T, s promotion.Store) {
	begin(t, s)
	want := must[promotion.State](t)(promotion.Advance(ctx(t), s, policy, promotion.Step{Stage: promotion.Canary, Percent: 0.5}, order(`why "so"`)))
	if got := read(t, s); got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	history := must[[]promotion.State](t)(s.History(ctx(t), policy))
	if len(history) != 2 || history[1] != want || history[0].Stage != promotion.Shadow {
		t.Errorf("history %+v, want shadow and %+v", history, want)
	}
}

func compareAndSet(t *testing.T, s promotion.Store) {
	begin(t, s)
	stored := read(t, s)
	next := stored
	next.Seq++
	wrong := stored
	wrong.Seq += 7
	if err := s.Put(ctx(t), policy, next, &wrong); !errors.Is(err, promotion.ErrConflict) {
		t.Errorf("put with a wrong version: %v, want ErrConflict", err)
	}
	other := stored
	other.Hold = true // of the same version, as there may be after a failover
	if err := s.Put(ctx(t), policy, next, &other); !errors.Is(err, promotion.ErrConflict) {
		t.Errorf("put with another state of that version: %v, want ErrConflict", err)
	}
	if err := s.Put(ctx(t), policy, next, &stored); err != nil {
		t.Error(err)
	}
	if err := s.Put(ctx(t), policy, next, &stored); !errors.Is(err, promotion.ErrConflict) {
		t.Errorf("the same put again: %v, want ErrConflict", err)
	}
}

// supersedes puts states in every order and looks at what stays.
func supersedes(t *testing.T, s promotion.Store) {
	v := func(term, seq int64, stage promotion.Stage, percent float64) promotion.State {
		return promotion.State{Version: promotion.Version{Term: term, Seq: seq}, Stage: stage, Percent: percent}
	}
	onHold := func(s promotion.State) promotion.State {
		s.Hold = true
		return s
	}
	rising := []promotion.State{
		v(1, 2, promotion.Completed, 100), v(1, 2, promotion.Promoted, 100), v(1, 2, promotion.Canary, 50), onHold(v(1, 2, promotion.Canary, 50)), v(1, 2, promotion.Canary, 49.99), v(1, 2, promotion.Canary, 1),
		v(1, 2, promotion.Shadow, 0), v(1, 2, promotion.RolledBack, 0), v(1, 10, promotion.Promoted, 100), v(2, 1, promotion.Promoted, 100),
	}
	for i, higher := range rising {
		if err := s.Put(ctx(t), policy, higher, nil); err != nil {
			t.Fatalf("put %+v: %v", higher, err)
		}
		for _, lower := range rising[:i+1] {
			if err := s.Put(ctx(t), policy, lower, nil); !errors.Is(err, promotion.ErrConflict) {
				t.Fatalf("put %+v over %+v: %v, want ErrConflict", lower, higher, err)
			}
		}
		if got := read(t, s); got != higher {
			t.Fatalf("stored %+v, want %+v", got, higher)
		}
	}
	history := must[[]promotion.State](t)(s.History(ctx(t), policy))
	if len(history) != 3 || history[0] != rising[0] || history[2] != rising[len(rising)-1] {
		t.Errorf("the trail is %v, want one entry of each of three versions", history)
	}
}

func oneWins(t *testing.T, s promotion.Store) {
	begin(t, s)
	expect := read(t, s).Version
	var wins, conflicts int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := promotion.Advance(ctx(t), s, policy, canary, promotion.Order{Expect: &expect})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				wins++
			case errors.Is(err, promotion.ErrConflict):
				conflicts++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if wins != 1 || conflicts != 7 {
		t.Errorf("%d won and %d had a conflict, want 1 and 7", wins, conflicts)
	}
}

func rollbackWins(t *testing.T, s promotion.Store) {
	begin(t, s)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for n := range 5 {
				percent := float64(10*n + i + 1)
				_, err := promotion.Advance(ctx(t), s, policy, promotion.Step{Stage: promotion.Canary, Percent: percent}, order("up"))
				if err != nil && !errors.Is(err, promotion.ErrConflict) && !errors.Is(err, promotion.ErrHold) && !errors.Is(err, promotion.ErrNowhere) {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		if _, err := promotion.Rollback(ctx(t), s, policy, order("down")); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	if got := read(t, s); got.Stage != promotion.RolledBack || !got.Hold || got.Term != 2 {
		t.Errorf("after a rollback among promotions: %+v", got)
	}
	if again := must[promotion.State](t)(promotion.Rollback(ctx(t), s, policy, order("again"))); again != read(t, s) || again.Term != 2 {
		t.Errorf("a second rollback made %+v", again)
	}
}

// ensureRollback ensures a rollback on stores as failovers leave them.
func ensureRollback(t *testing.T, s promotion.Store) {
	begin(t, s)
	shadow := read(t, s)
	v := func(term, seq int64) promotion.Version { return promotion.Version{Term: term, Seq: seq} }
	ordered := shadow.Since.Add(time.Minute)
	rolledBack := promotion.State{Version: v(2, 1), Stage: promotion.RolledBack, Hold: true, Epoch: shadow.Epoch}
	promoted := promotion.State{Version: v(1, 9), Stage: promotion.Promoted, Percent: 100, Epoch: shadow.Epoch}
	tests := []struct {
		name        string
		stored      promotion.Version
		since       time.Time
		wantVersion promotion.Version
		wantStage   promotion.Stage
	}{
		{"forgotten", v(1, 9), shadow.Since, v(2, 1), promotion.RolledBack},
		{"forgotten, and all there was begun anew", v(1, 10), ordered.Add(1), v(2, 1), promotion.RolledBack},
		{"outrun by what was resumed before", v(2, 3), shadow.Since, v(3, 1), promotion.RolledBack},
		{"outrun by what was resumed at that instant", v(3, 3), ordered, v(4, 1), promotion.RolledBack},
		{"resumed afterwards", v(4, 3), ordered.Add(1), v(4, 3), promotion.Promoted},
	}
	for _, tt := range tests {
		stored := promoted
		stored.Version, stored.Since, stored.At = tt.stored, tt.since, ordered.Add(time.Hour) // moved since, which says nothing
		before := read(t, s)
		if err := s.Put(ctx(t), policy, stored, &before); err != nil {
			t.Fatal(err)
		}
		got := must[promotion.State](t)(promotion.EnsureRollback(ctx(t), s, policy, rolledBack, ordered, order("bad")))
		now := read(t, s)
		if now.Version != tt.wantVersion || now.Stage != tt.wantStage || now.Stage == promotion.RolledBack && got.Version != now.Version {
			t.Errorf("%s: the store has %s and %s stands for the rollback, want %s %s", tt.name, now, got, tt.wantVersion, tt.wantStage)
		}
	}
}

func hold(t *testing.T, s promotion.Store) {
	begin(t, s)
	must[promotion.State](t)(promotion.Pause(ctx(t), s, policy, order("stop")))
	if _, err := promotion.Advance(ctx(t), s, policy, canary, order("go")); !errors.Is(err, promotion.ErrHold) {
		t.Errorf("advance on hold: %v, want ErrHold", err)
	}
	if _, err := promotion.Pause(ctx(t), s, policy, order("stop")); !errors.Is(err, promotion.ErrHold) {
		t.Errorf("pause on hold: %v, want ErrHold", err)
	}
	must[promotion.State](t)(promotion.Resume(ctx(t), s, policy, order("go on")))
	must[promotion.State](t)(promotion.Advance(ctx(t), s, policy, canary, order("go")))
	if _, err := promotion.Advance(ctx(t), s, policy, canary, order("go")); !errors.Is(err, promotion.ErrConflict) {
		t.Errorf("advance to where it is already: %v, want ErrConflict", err)
	}
	for _, step := range []promotion.Step{{Stage: promotion.Canary, Percent: 9}, {}, {Stage: "x"}, {Stage: promotion.RolledBack}, {Stage: promotion.Shadow}, {Stage: promotion.Canary, Percent: 101}, {Stage: promotion.Canary, Percent: -5}} {
		if _, err := promotion.Advance(ctx(t), s, policy, step, order("go")); !errors.Is(err, promotion.ErrNowhere) {
			t.Errorf("advance to %v: %v, want ErrNowhere", step, err)
		}
	}
}

func resume(t *testing.T, s promotion.Store) {
	begin(t, s)
	must[promotion.State](t)(promotion.Rollback(ctx(t), s, policy, order("bad")))
	if _, err := promotion.Resume(ctx(t), s, policy, order("again")); !errors.Is(err, promotion.ErrSameEpoch) {
		t.Errorf("resume of the same: %v, want ErrSameEpoch", err)
	}
	forced := must[promotion.State](t)(promotion.Resume(ctx(t), s, policy, promotion.Order{Force: true}))
	if forced.Stage != promotion.Shadow || forced.Hold || forced.Since.Before(forced.StageAt) {
		t.Errorf("resumed by force: %+v, want shadow with evidence from now on", forced)
	}
	must[promotion.State](t)(promotion.Rollback(ctx(t), s, policy, order("bad again")))
	if err := promotion.Begin(ctx(t), s, policy, "e2", "test"); err != nil {
		t.Fatal(err)
	}
	if got := must[promotion.State](t)(promotion.Resume(ctx(t), s, policy, order("mended"))); got.Stage != promotion.Shadow || got.Epoch != "e2" {
		t.Errorf("resumed in a new epoch: %+v", got)
	}
	begin(t, s) // somebody deploys what was rolled back
	if got := read(t, s); got.Stage != promotion.RolledBack || !got.Hold || got.Epoch != "e1" {
		t.Errorf("what was rolled back is there again, and the state is %+v", got)
	}
}

func epochs(t *testing.T, s promotion.Store) {
	begin(t, s)
	must[promotion.State](t)(promotion.Advance(ctx(t), s, policy, promotion.Step{Stage: promotion.Promoted}, order("all")))
	before := read(t, s)
	begin(t, s)
	if got := read(t, s); got != before {
		t.Errorf("the same epoch again made %+v of %+v", got, before)
	}
	if err := promotion.Begin(ctx(t), s, policy, "e2", "test"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s); got.Stage != promotion.Shadow || got.Epoch != "e2" || got.Percent != 0 || !got.Since.Equal(got.At) {
		t.Errorf("a new epoch: %+v", got)
	}
	must[promotion.State](t)(promotion.Rollback(ctx(t), s, policy, order("bad")))
	if err := promotion.Begin(ctx(t), s, policy, "e3", "test"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s); got.Stage != promotion.RolledBack || !got.Hold || got.Epoch != "e3" || got.FailedEpoch != "e2" {
		t.Errorf("a new epoch after a rollback: %+v", got)
	}
}

func watch(t *testing.T, s promotion.Store) {
	c, cancel := context.WithCancel(ctx(t))
	defer cancel()
	changed := s.Watch(c)
	begin(t, s)
	for i := 0; ; i++ { // a subscription takes a moment to stand
		select {
		case <-changed:
			return
		case <-time.After(50 * time.Millisecond):
		case <-c.Done():
			t.Fatal("nothing was heard of any change")
		}
		if _, err := promotion.Pause(c, s, policy, order("")); err != nil {
			if _, err := promotion.Resume(c, s, policy, order("")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func instances(t *testing.T, s promotion.Store) {
	now := must[time.Time](t)(s.Now(ctx(t)))
	applied := map[string]promotion.Applied{policy: {Version: promotion.Version{Term: 1, Seq: 2}, Epoch: "e1"}}
	for id, age := range map[string]time.Duration{"a": 0, "b": 2 * promotion.LiveFor, "c": 2 * promotion.SilentFor, "d": 0} {
		if err := s.Beat(ctx(t), promotion.Instance{ID: id, At: now.Add(-age), Policies: applied}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Leave(ctx(t), "d"); err != nil {
		t.Fatal(err)
	}
	all := must[[]promotion.Instance](t)(s.Instances(ctx(t)))
	live, silent := promotion.LiveAt(now, policy, all)
	if got := fmt.Sprint(ids(live), ids(silent)); got != "[a] [b]" {
		t.Errorf("live and silent are %s, want [a] [b]", got)
	}
	if live[0].Policies[policy] != applied[policy] {
		t.Errorf("applied %+v", live[0].Policies)
	}
	if other, _ := promotion.LiveAt(now, "another", all); len(other) != 0 {
		t.Errorf("%v are live with a policy they do not have", ids(other))
	}
}

func ids(list []promotion.Instance) (names []string) {
	for _, i := range list {
		names = append(names, i.ID)
	}
	return names
}

func specs(t *testing.T, s promotion.Store) {
	want := promotion.Spec{Policy: policy, Epoch: "e1", Authoritative: "a", Candidate: "b", Config: promotion.Config{Dwell: 2 * time.Hour}.WithDefaults()}
	older := want
	older.Epoch = "e0"
	for _, list := range [][]promotion.Spec{{older}, {want, {Policy: "another"}}} {
		if err := s.Announce(ctx(t), list); err != nil {
			t.Fatal(err)
		}
	}
	got := must[[]promotion.Spec](t)(s.Specs(ctx(t)))
	if len(got) != 2 || got[0].Policy != "another" || fmt.Sprint(got[1]) != fmt.Sprint(want) {
		t.Errorf("specs %+v, want another and %+v", got, want)
	}
}
