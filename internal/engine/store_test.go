package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// failing is a store's pair that answers with an error, or nothing wrong.
type failing struct {
	err   error
	asked int
	both  int // checks with both sides
}

func (f *failing) Evaluate(_ context.Context, checks []algorithms.Check, into [][2]algorithms.Observation) error {
	f.asked++
	for i, c := range checks {
		if c.Sides[0].Present() && c.Sides[1].Present() {
			f.both++
		}
		for role := range into[i] {
			if into[i][role] = (algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}); f.err != nil {
				into[i][role] = algorithms.Failure(&lua.StoreError{Side: algorithms.Role(role), Err: f.err})
			}
		}
	}
	return nil
}

// pairFunc is a store's pair that is one function.
type pairFunc func(context.Context, []algorithms.Check, [][2]algorithms.Observation) error

func (f pairFunc) Evaluate(ctx context.Context, c []algorithms.Check, o [][2]algorithms.Observation) error {
	return f(ctx, c, o)
}

func storeOn(p algorithms.Pair) *Store {
	return NewRemoteStore("", p, never, slog.New(slog.DiscardHandler))
}

func (s *Store) ask(both bool) error {
	o := s.observe(both)
	return o.Err
}

// observe asks the store and returns what became of the enforced side.
func (s *Store) observe(both bool) algorithms.Observation {
	side := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1, Window: time.Second}}
	c := algorithms.Check{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Side{side}}
	if both {
		side.ID = "b"
		c.Sides[1] = side
	}
	var o [1][2]algorithms.Observation
	s.evaluate(context.Background(), []algorithms.Check{c}, o[:])
	return o[0][0]
}

// answerOf is an answer, or the failure that an error is.
func answerOf(err error) (o algorithms.Observation) {
	if err != nil {
		return algorithms.Failure(err)
	}
	return o
}

func TestRefusedChecksTellNothingOfTheStore(t *testing.T) {
	asked := 0
	s := storeOn(pairFunc(func(_ context.Context, checks []algorithms.Check, into [][2]algorithms.Observation) error {
		if checks[0].Cost < 0 { // as lua.Pair: refused without asking Redis
			into[0] = [2]algorithms.Observation{algorithms.Failure(algorithms.ErrCost), algorithms.Observation{}}
			return nil
		}
		asked++
		refused := &lua.StoreError{Err: errors.New("refused")}
		into[0] = Observations{algorithms.Failure(refused), algorithms.Observation{}}
		return nil
	}))
	c := algorithms.Check{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Side{{Algorithm: algorithms.GCRA{}}}}
	bad := c
	bad.Cost = -1
	var o [1][2]algorithms.Observation
	for range 100 {
		s.evaluate(context.Background(), []algorithms.Check{c}, o[:])
		s.evaluate(context.Background(), []algorithms.Check{bad}, o[:])
	}

	if asked > breakAfter {
		t.Errorf("a dead store was asked %d times, breaker open %t", asked, s.nodes.open())
	}
}

// A store that answers in 12 ms is not given the time by callers with shorter deadlines.
// That opens no breaker, and is no overload. A store that does not answer within the
// client's own timeout has failed, whatever deadline the caller has.
func TestCallersInAHurryDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answersIn := 12 * time.Millisecond
		s := storeOn(pairFunc(func(ctx context.Context, checks []algorithms.Check, into [][2]algorithms.Observation) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}

			// The timer of a connection may fire before that of the context.
			deadline, _ := ctx.Deadline()
			select {
			case <-time.After(answersIn):
				into[0] = Observations{{Status: algorithms.Judged}, {Status: algorithms.Judged}}
			case <-time.After(time.Until(deadline) - 10*time.Microsecond):
				for role := range into[0] {
					into[0][role] = algorithms.Failure(&lua.StoreError{Side: algorithms.Role(role), Err: os.ErrDeadlineExceeded})
				}
			}
			return nil
		}))
		side := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1, Window: time.Second}}
		other := side
		other.ID = "b"
		c := algorithms.Check{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Side{side, other}}
		var o [1][2]algorithms.Observation
		ask := func(given time.Duration) {
			ctx, cancel := context.WithTimeout(context.Background(), given)
			defer cancel()
			s.evaluate(ctx, []algorithms.Check{c}, o[:])
		}

		for _, given := range []time.Duration{0, time.Millisecond, 11 * time.Millisecond} {
			for range 2 * breakAfter {
				ask(given)
			}
			if s.nodes.open() {
				t.Errorf("given %s: the breaker is open because of callers in a hurry", given)
			}
		}

		answersIn = time.Hour
		for range breakAfter {
			ask(s.fullTime + time.Millisecond)
		}
		if !s.nodes.open() {
			t.Error("a store that hangs does not open the breaker")
		}

		// A caller in a hurry that tries the store does not keep the others from trying.
		time.Sleep(time.Second)
		answersIn = 12 * time.Millisecond
		ask(time.Millisecond)
		time.Sleep(time.Second)
		if ask(time.Second); o[0][0].Status != algorithms.Judged || s.nodes.open() {
			t.Errorf("well again: %v, open %t", o[0][0].Err, s.nodes.open())
		}
	})
}
