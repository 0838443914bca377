package shadow

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// After judging both sides was too much for a store several times, the other side is to
// follow behind the request for a while.
func TestOverloadNeedsSeveralStalls(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, proto("BUSY Redis is busy")} {
		synctest.Test(t, func(t *testing.T) {
			pair := &failing{err: err}
			s := storeOn(pair)
			moment := func(both bool) {
				pair.err = err
				s.ask(both)
				pair.err = nil
				s.ask(both)
			}

			for range 2 * strainAfter {
				moment(false)
			}
			if s.overloaded() {
				t.Errorf("%v: one side alone is too much", err)
			}

			for n := range strainAfter {
				if s.overloaded() {
					t.Errorf("%v: %d moments are too much", err, n)
				}
				moment(true)
			}
			if !s.overloaded() || s.overloadLasts() {
				t.Errorf("%v: overloaded %t, lasting %t, want true, false", err, s.overloaded(), s.overloadLasts())
			}

			time.Sleep(strainFor)
			if s.overloaded() {
				t.Errorf("%v: overloaded after 30 s", err)
			}

			// It is too much again at once, so the overload lasts.
			for range strainAfter {
				moment(true)
			}
			time.Sleep(time.Second)
			if !s.overloadLasts() {
				t.Errorf("%v: overloaded again after the relief, and it does not last", err)
			}

			// Moments that lie apart are no overload.
			time.Sleep(2 * strainFor)
			for range 2 * strainAfter {
				time.Sleep(strainWithin)
				moment(true)
			}
			if s.overloaded() {
				t.Errorf("%v: moments ten seconds apart are too much", err)
			}
		})
	}

	// Where memory is short, only a charge of both sides can give up the log of one.
	for _, err := range []error{proto("WRONGTYPE"), proto("OOM command not allowed")} {
		s := storeOn(&failing{err: err})
		for range 2 * strainAfter {
			s.ask(true)
		}
		if s.overloaded() {
			t.Errorf("%v is an overload", err)
		}
	}
}

// A log that was given up for memory is no failure of the limiter, and no difference.
func TestLogThatWasGivenUpIsInconclusive(t *testing.T) {
	o := observations{{Status: algorithms.Judged}, algorithms.Failure(lua.ErrLogShed)}
	markStoreFailed(&o)
	if got := divergence.Compare(&o); got != divergence.Inconclusive || o[1].Reason != algorithms.StoreFailed {
		t.Errorf("%v of %+v", got, o[1])
	}
}

// proto is an error as Redis answers it.
type proto string

func (p proto) Error() string { return string(p) }
func (proto) RedisError()     {}

func TestSideThatWasTooMuchFollows(t *testing.T) {
	st := storeOn(&failing{})
	m := newMigration(promotion.Spec{Policy: "p"}, bothIn(st), options{log: slog.New(slog.DiscardHandler)})
	for range strainAfter {
		st.strain.note(st.log, errors.New("slow"))
	}

	c := algorithms.Charge{Sides: [2]algorithms.Side{{Algorithm: algorithms.GCRA{}}, {Algorithm: algorithms.FixedWindow{}}}}
	ev := evaluation{migration: m}
	if ev.assign(&c); ev.other != otherBehind || c.Sides[1].Present() || !c.Sides[0].Present() {
		t.Errorf("assigned %+v of %+v", ev, c)
	}
}

// A store for which both sides go on being too much puts those policies on hold whose two
// sides it judges. A slow moment puts none on hold.
func TestHoldIsForAnOverloadThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store, suffering := promotion.NewMemoryStore(), storeOn(&failing{err: proto("BUSY")})

		// Of the policies "p" and "split", one has both sides in the store.
		f, fused := idleOn(store, "a")
		sides := bothIn(suffering)
		fused.sides = sides
		sides[algorithms.Authoritative].store = storeOn(&failing{})
		spec := fused.spec
		spec.Policy = "split"
		split := newMigration(spec, sides, options{log: slog.New(slog.DiscardHandler)})
		f.plan.Store(&plan{migrations: []*migration{fused, split}})
		defer closeFollowers(ctx, []*migration{split})

		poll := func() {
			if err := f.poll(ctx); err != nil {
				t.Fatal(err)
			}
		}
		poll() // announces the policies
		for _, m := range []*migration{fused, split} {
			if _, err := promotion.Advance(ctx, store, m.spec.Policy, promotion.Step{Stage: promotion.Promoted}, promotion.Order{}); err != nil {
				t.Fatal(err)
			}
		}
		poll()

		check := func(when string, want bool) {
			t.Helper()
			f.holdOverloaded(ctx)
			states, err := store.States(ctx, []string{"p", "split"})
			if err != nil || states[0].Hold != want || states[1].Hold {
				t.Errorf("%s: %s and %s, %v: want hold %t and false", when, states[0].Describe(), states[1].Describe(), err, want)
			}
		}

		moments := func() {
			for range strainAfter {
				suffering.ask(true)
			}
		}
		moments()
		check("after three moments", false)
		time.Sleep(strainFor + time.Second)
		check("after the relief", false)
		moments()
		check("after three more moments", true)
	})
}
