package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
)

func TestBreakerSparesAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := &failing{err: errors.New("refused")}
		s := storeOn(pair)
		for range 100 {
			s.ask(false)
		}

		if o := s.observe(false); pair.asked != breakAfter || !skippedByBreaker(&o) || !s.nodes.open() {
			t.Errorf("a store that fails was asked %d times, want %d; the last time it was %s", pair.asked, breakAfter, o.Status)
		}

		// Pauses of 0.1, 0.2, ... 25.6, 30 and 30 s, each within a fifth: 111 s in all.
		begin, tried := time.Now(), 0
		for time.Since(begin) < 111*time.Second {
			time.Sleep(10 * time.Millisecond)
			before := pair.asked
			for range 10 {
				s.ask(false)
			}
			if pair.asked > before+1 {
				t.Fatalf("%d requests tried it at once", pair.asked-before)
			}
			tried += pair.asked - before
		}
		if tried < 9 || tried > 13 {
			t.Errorf("it was tried %d times in 111 s, want about 11", tried)
		}

		pair.err = nil
		time.Sleep(breakMost * 6 / 5)
		for range 10 {
			if err := s.ask(false); err != nil {
				t.Errorf("a store that is well again: %v", err)
			}
		}
	})
}

// The first pause is short, and a success makes the next row begin with it again.
func TestBreakerTriesAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := &failing{}
		s := storeOn(pair)
		for range 3 {
			pair.err = errors.New("refused")
			for range breakAfter + 3 {
				s.ask(false)
			}
			time.Sleep(breakFirst * 3 / 4)
			if o := s.observe(false); !skippedByBreaker(&o) || !s.nodes.resting() {
				t.Fatal("it was tried before the pause was over")
			}

			pair.err = nil
			time.Sleep(breakFirst / 2)
			if err := s.ask(false); err != nil || s.nodes.open() {
				t.Errorf("well again: %v, open %t", err, s.nodes.open())
			}
		}
	})
}

// One stall fails all requests in flight, and is one failure.
func TestOneStallIsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 50 * time.Millisecond
		stalled := false
		s := storeOn(pairFunc(func(_ context.Context, _ []algorithms.Check, into [][2]algorithms.Observation) error {
			into[0] = Observations{}
			if stalled {
				time.Sleep(timeout)
				into[0] = Observations{algorithms.Failure(&lua.StoreError{Err: context.DeadlineExceeded})}
			}
			return nil
		}))

		// Within 50 ms, 100 requests begin; those that failed are followed by others.
		stall := func(d time.Duration) {
			stalled = true
			time.AfterFunc(d, func() { stalled = false })
			for i := range 100 {
				go func() {
					time.Sleep(time.Duration(i) * timeout / 100)
					for stalled {
						s.ask(true)
						time.Sleep(time.Millisecond)
					}
				}()
			}
			time.Sleep(d + 2*timeout)
		}

		stall(70 * time.Millisecond)
		if s.nodes.open() {
			t.Error("one stall of 70 ms opens the breaker")
		}
		if s.errors.Load() < 100 {
			t.Fatalf("only %d requests failed: the test does not test what it should", s.errors.Load())
		}

		// Five in a row are a store that does not answer.
		stall(6 * timeout)
		if !s.nodes.open() {
			t.Error("a stall of six timeouts does not open the breaker")
		}
	})
}

// A client that waits for three seconds fails five times in fifteen, and its requests must
// be kept off all the same.
func TestBreakerDoesNotCountTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storeOn(pairFunc(func(_ context.Context, _ []algorithms.Check, into [][2]algorithms.Observation) error {
			time.Sleep(3 * time.Second)
			into[0] = Observations{algorithms.Failure(&lua.StoreError{Err: errors.New("i/o timeout")})}
			return nil
		}))
		for range breakAfter {
			s.ask(false)
		}
		if !s.nodes.open() {
			t.Error("the breaker of a store that never answers stays closed")
		}
	})
}

// A trial that never ends is not the last one.
func TestTrialThatHangsIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(func(bool) {})
		for range breakAfter {
			a, _ := b.allow()
			b.finish(a, errors.New("refused"))
		}
		time.Sleep(time.Second)
		if _, ok := b.allow(); !ok {
			t.Fatal("no trial after a second")
		}
		if _, ok := b.allow(); ok {
			t.Error("two trials at once")
		}

		time.Sleep(breakMost)
		a, ok := b.allow()
		if !ok {
			t.Fatal("no trial after one that hangs")
		}
		if b.finish(a, nil); b.open() {
			t.Error("the trial has succeeded, and the breaker is open")
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

		if s.nodes.open() {
			t.Error("the breaker is open")
		}
	})
}

// A panic in a client's hook, in the one request that tries a store again, is a failure
// like any other.
func TestPanicDoesNotKeepTheBreakerHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		panics := false
		s := storeOn(pairFunc(func(_ context.Context, checks []algorithms.Check, into [][2]algorithms.Observation) error {
			if panics {
				panic("a hook of the client")
			}
			into[0] = [2]algorithms.Observation{answerOf(err), algorithms.Observation{}}
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
	mine := callerFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
		return algorithms.Decision{}, errors.New("mine is out of order")
	})

	sides := bothIn(NewMemoryStore())
	sides[algorithms.Candidate] = CustomSide(mine)
	p := NewPolicy(stages.Spec{Policy: "p"}, sides, PolicyOptions{Log: slog.New(stuckLog{slog.DiscardHandler, in, out})})
	candidate := &p.Sides[algorithms.Candidate]
	defer p.progress.async.close(t.Context())
	defer close(out)
	go func() {
		for range breakAfter {
			candidate.withBreaker(context.Background(), func() algorithms.Observation {
				return call(t.Context(), mine, &algorithms.Check{}, algorithms.Limit{})
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

// BenchmarkBreaker measures what a request in the calm state pays, also where many do so at
// the same time.
func BenchmarkBreaker(b *testing.B) {
	k := newBreaker(func(bool) {})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a, _ := k.allow()
			k.finish(a, nil)
		}
	})
}

// A request that has read the new count of failures and the old state, while the breaker opened, is no trial. Its
// failure is one of the stall, and must not lengthen the pause.
func TestFailureBesideTheOpeningIsNoTrial(t *testing.T) {
	b := newBreaker(func(bool) {})
	for range breakAfter {
		a, _ := b.allow()
		b.finish(a, errors.New("no answer"))
	}

	beside := attempt{counted: b.counted.Load(), began: time.Now()}
	if b.finish(beside, errors.New("no answer")) || b.pause != breakFirst {
		t.Errorf("the failure counts, and the pause is %s, want %s", b.pause, breakFirst)
	}
}
