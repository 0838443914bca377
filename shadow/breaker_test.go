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
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// failing is a store's pair that answers with an error, or nothing wrong.
type failing struct {
	err   error
	asked int
	both  int // charges with both sides
}

func (f *failing) Evaluate(_ context.Context, charges []algorithms.Charge, into [][2]algorithms.Observation) error {
	f.asked++
	for i, c := range charges {
		if c.Sides[0].Present() && c.Sides[1].Present() {
			f.both++
		}
		for role := range into[i] {
			if into[i][role] = (algorithms.Observation{Decision: algorithms.Decision{Allowed: true}}); f.err != nil {
				into[i][role] = algorithms.Failure(&lua.StoreError{Side: algorithms.Role(role), Err: f.err})
			}
		}
	}
	return nil
}

// pairFunc is a store's pair that is one function.
type pairFunc func(context.Context, []algorithms.Charge, [][2]algorithms.Observation) error

func (f pairFunc) Evaluate(ctx context.Context, c []algorithms.Charge, o [][2]algorithms.Observation) error {
	return f(ctx, c, o)
}

func storeOn(p algorithms.Pair) *store {
	return newRemoteStore("", p, slog.New(slog.DiscardHandler))
}

func (s *store) ask(both bool) error {
	o := s.observe(both)
	return o.Err
}

// observe asks the store and returns what became of the enforced side.
func (s *store) observe(both bool) algorithms.Observation {
	side := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1, Window: time.Second}}
	c := algorithms.Charge{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Side{side}}
	if both {
		side.ID = "b"
		c.Sides[1] = side
	}
	var o [1][2]algorithms.Observation
	s.evaluate(context.Background(), []algorithms.Charge{c}, o[:])
	return o[0][0]
}

func TestBreakerSparesAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := &failing{err: errors.New("refused")}
		s := storeOn(pair)
		for range 100 {
			s.ask(false)
		}

		if o := s.observe(false); pair.asked != breakAfter || !skippedByBreaker(&o) || !s.breaker.open() {
			t.Errorf("a store that fails was asked %d times, want %d; the last time it was %s", pair.asked, breakAfter, o.Status)
		}

		time.Sleep(23 * time.Second)
		if s.ask(false); pair.asked != breakAfter {
			t.Errorf("it was asked again before 24 s")
		}

		time.Sleep(14 * time.Second)
		for range 100 {
			s.ask(false)
		}

		if pair.asked != breakAfter+1 {
			t.Errorf("after 36 s it was asked %d times more, want once", pair.asked-breakAfter)
		}

		pair.err = nil
		time.Sleep(37 * time.Second)
		for range 10 {
			if err := s.ask(false); err != nil {
				t.Errorf("a store that is well again: %v", err)
			}
		}
	})
}

func TestBreakerForgivesFailuresInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := &failing{}
		s := storeOn(pair)
		for range 50 { // four on end, or five within more than ten seconds
			for range breakAfter - 1 {
				pair.err = errors.New("refused")
				s.ask(false)
			}
			pair.err = nil
			s.ask(false)
		}

		pair.err = errors.New("refused")
		for range 3 * breakAfter {
			time.Sleep(3 * time.Second)
			s.ask(false)
		}

		if s.breaker.open() {
			t.Error("the breaker is open")
		}
	})
}

// After judging both sides was too much for a store, enforced sides are judged alone
// for a while.
func TestEnforcedSideIsJudgedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range []error{context.DeadlineExceeded, proto("OOM command not allowed"), proto("BUSY Redis is busy")} {
			pair := &failing{err: err}
			s := storeOn(pair)
			if s.ask(false); s.overloaded() {
				t.Errorf("%v: a side alone was too much, and it is judged alone", err)
			}
			if s.ask(true); !s.overloaded() {
				t.Errorf("%v: enforced sides are not judged alone", err)
			}

			time.Sleep(enforcedOnlyFor)
			if s.overloaded() {
				t.Errorf("%v: enforced sides are still judged alone", err)
			}
		}

		if s := storeOn(&failing{err: proto("WRONGTYPE")}); s.ask(true) == nil || s.overloaded() {
			t.Error("any error makes enforced sides be judged alone")
		}
	})
}

// proto is an error as Redis answers it.
type proto string

func (p proto) Error() string { return string(p) }
func (proto) RedisError()     {}

func TestSideThatWasTooMuchFollows(t *testing.T) {
	st := storeOn(&failing{})
	m := newMigration(promotion.Spec{Policy: "p"}, bothIn(st), options{log: slog.New(slog.DiscardHandler)})
	st.shedCandidate(errors.New("slow"))

	c := algorithms.Charge{Sides: [2]algorithms.Side{{Algorithm: algorithms.GCRA{}}, {Algorithm: algorithms.FixedWindow{}}}}
	ev := evaluation{migration: m}
	if ev.assign(&c); ev.other != algorithms.Deferred || c.Sides[1].Present() || !c.Sides[0].Present() {
		t.Errorf("assigned %+v of %+v", ev, c)
	}
}

// limiterOf is a plain limiter in a store that may fail.
func limiterOf(a algorithms.Algorithm) *migration {
	sides := [2]side{algorithmSide(algorithms.Side{Algorithm: a}, storeOn(&failing{}))}
	return newMigration(promotion.Spec{Policy: "p"}, sides, options{log: slog.New(slog.DiscardHandler)})
}

// The local limiter has seen every request when it is needed, and allows a share.
func TestLocalIsWarmAndDivided(t *testing.T) {
	l := newLocal()
	m := limiterOf(algorithms.FixedWindowAnchored{})
	ev := &evaluation{migration: m, limits: [2]algorithms.Limit{{Requests: 10, Window: time.Hour}}}
	for instances, want := range map[int64]int{1: 10, 3: 4, 10: 1, 100: 1} {
		c := &algorithms.Charge{Policy: "p", Key: string(rune('a' + instances)), Cost: 1}
		n := 0
		for range 20 {
			if local := l.feed(c, ev, instances); local.ok && local.decision.Allowed {
				n++
			}
		}

		if n != want {
			t.Errorf("one of %d instances allows %d of 10, want %d", instances, n, want)
		}
	}

	if m.onFailure = policies.FailAllow; true {
		if local := l.feed(&algorithms.Charge{Policy: "p", Key: "k", Cost: 1}, ev, 1); local.ok {
			t.Error("a policy that allows where its store fails keeps a local limiter")
		}
	}
}

// A share that no algorithm can compute exactly is no reason to allow everything.
func TestShareThatIsTooFine(t *testing.T) {
	l := newLocal()
	m := limiterOf(algorithms.TokenBucket{})
	ev := &evaluation{migration: m, limits: [2]algorithms.Limit{{Requests: 1_000_000, Window: 24 * time.Hour}}}
	if err := (algorithms.TokenBucket{}).Validate(divided(ev.limits[0], 3)); err == nil {
		t.Fatal("the share is not too fine")
	}
	if local := l.feed(&algorithms.Charge{Policy: "p", Key: "k", Cost: 1}, ev, 3); !local.ok || local.decision.Limit != 1_000_000 {
		t.Errorf("%+v, want the whole limit to stand in", local)
	}
}

func BenchmarkLocal(b *testing.B) {
	l := newLocal()
	m := limiterOf(algorithms.FixedWindow{})
	ev := &evaluation{migration: m, limits: [2]algorithms.Limit{{Requests: 1_000_000_000, Window: time.Minute}}}
	c := &algorithms.Charge{Policy: "p", Key: "alice", Cost: 1}
	b.ReportAllocs()
	for b.Loop() {
		l.feed(c, ev, 3)
	}
}

// A panic in a client's hook, in the one request that tries a store again, is a failure
// like any other.
func TestPanicDoesNotKeepTheBreakerHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		panics := false
		s := storeOn(pairFunc(func(_ context.Context, charges []algorithms.Charge, into [][2]algorithms.Observation) error {
			if panics {
				panic("a hook of the client")
			}
			into[0] = [2]algorithms.Observation{answerOf(err), algorithms.Unjudged(algorithms.Absent)}
			return nil
		}))
		try := func() (e error) {
			defer func() { recover() }()
			return s.ask(false)
		}

		err = &lua.StoreError{Err: errors.New("refused")}
		for range 5 {
			try()
		}

		time.Sleep(40 * time.Second)
		panics = true
		try()
		panics, err = false, nil
		time.Sleep(10 * time.Minute)
		if e := try(); e != nil {
			t.Errorf("well again for ten minutes: %v", e)
		}
	})
}

// answerOf is an answer, or the failure that an error is.
func answerOf(err error) (o algorithms.Observation) {
	if err != nil {
		return algorithms.Failure(err)
	}
	return o
}

func TestRefusedChargesTellNothingOfTheStore(t *testing.T) {
	asked := 0
	s := storeOn(pairFunc(func(_ context.Context, charges []algorithms.Charge, into [][2]algorithms.Observation) error {
		if charges[0].Cost < 0 { // as lua.Pair: refused without asking Redis
			into[0] = [2]algorithms.Observation{algorithms.Failure(algorithms.ErrCost), algorithms.Unjudged(algorithms.Absent)}
			return nil
		}
		asked++
		refused := &lua.StoreError{Err: errors.New("refused")}
		into[0] = observations{algorithms.Failure(refused), algorithms.Unjudged(algorithms.Absent)}
		return nil
	}))
	c := algorithms.Charge{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Side{{Algorithm: algorithms.GCRA{}}}}
	bad := c
	bad.Cost = -1
	var o [1][2]algorithms.Observation
	for range 100 {
		s.evaluate(context.Background(), []algorithms.Charge{c}, o[:])
		s.evaluate(context.Background(), []algorithms.Charge{bad}, o[:])
	}

	if asked > breakAfter {
		t.Errorf("a dead store was asked %d times, breaker open %t", asked, s.breaker.open())
	}
}

func TestCallersInAHurryDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storeOn(pairFunc(func(ctx context.Context, charges []algorithms.Charge, into [][2]algorithms.Observation) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}

			select {
			case <-time.After(3 * time.Millisecond): // a healthy store's answer
			case <-ctx.Done():
				for role := range into[0] {
					into[0][role] = algorithms.Failure(&lua.StoreError{Side: algorithms.Role(role), Err: ctx.Err()})
				}
			}

			return nil
		}))
		side := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1, Window: time.Second}}
		other := side
		other.ID = "b"
		c := algorithms.Charge{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Side{side, other}}
		var o [1][2]algorithms.Observation
		for _, patience := range []time.Duration{0, time.Millisecond} {
			for range 5 {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				s.evaluate(ctx, []algorithms.Charge{c}, o[:])
				cancel()
			}
			if s.breaker.open() || s.overloaded() {
				t.Errorf("patience %s: breaker open %t, overloaded %t because of callers in a hurry", patience, s.breaker.open(), s.overloaded())
			}
		}
	})
}

func TestLocalIsWarmForBothSides(t *testing.T) {
	l := newLocal()
	m := newMigration(promotion.Spec{Policy: "p"}, bothIn(storeOn(&failing{})), options{log: slog.New(slog.DiscardHandler)})
	ev := &evaluation{migration: m, limits: [2]algorithms.Limit{{Requests: 10, Window: time.Hour}, {Requests: 10, Window: time.Hour}}}
	c := &algorithms.Charge{Policy: "p", Key: "k", Cost: 1, Enforced: algorithms.Candidate}
	for range 10 {
		l.feed(c, ev, 1)
	}

	c.Enforced = algorithms.Authoritative // red button
	if local := l.feed(c, ev, 1); local.decision.Allowed {
		t.Errorf("after the stage moved the local limiter is cold: %+v", local)
	}
}

// stuckLog is a log that hangs.
type stuckLog struct {
	slog.Handler
	in, out chan struct{}
}

func (stuckLog) Enabled(context.Context, slog.Level) bool { return true }

func (s stuckLog) Handle(context.Context, slog.Record) error {
	close(s.in)
	<-s.out
	return nil
}

// Requests ask the breaker of a candidate that fails, and do not wait for its log.
func TestBreakerIsNotHeldWhileItsMoveIsLogged(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	mine := LimiterFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
		return algorithms.Decision{}, errors.New("mine is out of order")
	})

	sides := bothIn(newMemoryStore())
	sides[algorithms.Candidate] = foreignSide(mine)
	m := newMigration(promotion.Spec{Policy: "p"}, sides, options{log: slog.New(stuckLog{slog.DiscardHandler, in, out})})
	candidate := &m.sides[algorithms.Candidate]
	defer m.followers.close(t.Context())
	defer close(out)
	go func() {
		for range breakAfter {
			candidate.withBreaker(context.Background(), func() algorithms.Observation {
				return call(t.Context(), mine, &algorithms.Charge{}, algorithms.Limit{})
			})
		}
	}()

	<-in
	asked := make(chan struct{})
	go func() {
		candidate.resting()
		close(asked)
	}()

	select {
	case <-asked:
	case <-time.After(5 * time.Second):
		t.Error("a request waits for the log")
	}
}
