package retry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// limitFor returns a limit of that many requests in ten seconds.
func limitFor(a algorithms.Algorithm, requests int64) algorithms.Limit {
	l := algorithms.Limit{Requests: requests, Window: 10 * time.Second}
	if algorithms.TraitsOf(a).Burst == algorithms.BurstRequired {
		l.Burst = requests
	}
	return l
}

func pacerOf(t *testing.T, cfg PacerConfig) *Pacer {
	t.Helper()
	p, err := NewPacer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// turns notes the numbers of calls in the order in which they are allowed. Only the first of a line asks, so it needs no lock.
type turns struct {
	Limiter
	order []int
}

type number struct{}

func (n *turns) Allow(ctx context.Context, key string, l algorithms.Limit, cost int64) (algorithms.Decision, error) {
	d, err := n.Limiter.Allow(ctx, key, l, cost)
	if d.Allowed {
		n.order = append(n.order, ctx.Value(number{}).(int))
	}
	return d, err
}

// Requests have their turns in the order in which they came, at instants at which a server with the same limit allows each of them.
func TestPacedRequestsAreNotDenied(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		shape := rapid.SampledFrom(algorithms.All).Draw(rt, "shape")
		limit := limitFor(shape, rapid.Int64Range(1, 5).Draw(rt, "limit"))
		gaps := rapid.SliceOfN(rapid.Int64Range(0, int64(4*time.Second)), 1, 20).Draw(rt, "gaps")
		synctest.Test(t, func(t *testing.T) {
			turns := &turns{Limiter: inMemory(shape)}
			pacer := pacerOf(t, PacerConfig{Limiter: turns, Limit: limit, MaxWait: time.Hour})
			judge, served := inMemory(shape), atomic.Int64{}
			client := Paced(server(func(r *http.Request) *http.Response {
				served.Add(1)

				// A turn is rounded up to a microsecond, and the server counts on from there: a leaky bucket may say less than one more.
				d, err := judge.Allow(r.Context(), "k", limit, 1)
				if err != nil || !d.Allowed || d.Delay > time.Microsecond {
					rt.Errorf("a request: %+v (%v)", d, err)
				}
				return answer(200)
			}), pacer, nil)

			want := []int{}
			for i, gap := range gaps {
				time.Sleep(time.Duration(gap))
				go client.RoundTrip(get(context.WithValue(t.Context(), number{}, i)))
				synctest.Wait()
				want = append(want, i)
			}
			time.Sleep(time.Hour)
			synctest.Wait()

			if fmt.Sprint(turns.order) != fmt.Sprint(want) || served.Load() != int64(len(want)) {
				rt.Errorf("%d requests sent, turns %v", served.Load(), turns.order)
			}
			if pacer.lines.waiting != 0 || len(pacer.lines.byKey) != 0 {
				rt.Errorf("%d calls and %d lines are left", pacer.lines.waiting, len(pacer.lines.byKey))
			}
		})
	})
}

// A call that leaves its line, from any place, holds up none behind it, and nothing is spent for it.
func TestCallsLeaveTheirLine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		leaves := rapid.SliceOfN(rapid.Int64Range(0, 200), 1, 15).Draw(rt, "leaves")
		synctest.Test(t, func(t *testing.T) {
			window := algorithms.FixedWindowAnchored{}
			pacer := pacerOf(t, PacerConfig{Algorithm: window, Limit: limitFor(window, 1), MaxWait: time.Hour})
			began, let := time.Now(), make(chan time.Duration, len(leaves))
			for _, second := range leaves {
				ctx, cancel := context.WithCancel(t.Context())
				leave := time.Duration(second)*time.Second + time.Second/2
				time.AfterFunc(leave, cancel)
				go func() {
					err := pacer.Wait(ctx, "k", 1)
					if took := time.Since(began); err != nil && took != leave {
						rt.Errorf("%v after %s, want the context's after %s", err, took, leave)
					}
					if err == nil {
						let <- time.Since(began)
					}
				}()
				synctest.Wait()
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			close(let)

			// The model: a turn each ten seconds, for the first in line that is still there.
			want, left := []time.Duration{}, leaves
			for now := int64(0); len(left) > 0; now += 10 {
				for len(left) > 0 && left[0] < now {
					left = left[1:]
				}
				if len(left) > 0 {
					want, left = append(want, time.Duration(now)*time.Second), left[1:]
				}
			}
			got := []time.Duration{}
			for at := range let {
				got = append(got, at)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Errorf("let go at %v, want %v", got, want)
			}
		})
	})
}

// forever is a limiter that gives one answer.
type forever struct {
	algorithms.Decision
	err   error
	asked *[]time.Duration
	began time.Time
}

func (f forever) Allow(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
	if f.asked != nil {
		*f.asked = append(*f.asked, time.Since(f.began))
	}
	return f.Decision, f.err
}

// What a pacer cannot let go has an error, at once where that is certain.
func TestPacerRefuses(t *testing.T) {
	broken := errors.New("no answer")
	for _, tt := range []struct {
		name    string
		limiter forever
		timeout time.Duration
		want    error
		after   time.Duration
	}{
		{"never", forever{Decision: algorithms.Decision{RetryAfter: algorithms.Never}}, time.Hour, ErrNever, 0},
		{"too long", forever{Decision: algorithms.Decision{RetryAfter: time.Minute + 1}}, time.Hour, ErrTooLong, 0},
		{"longer than the context", forever{Decision: algorithms.Decision{RetryAfter: 2 * time.Second}}, time.Second, ErrTooLong, 0},
		{"a turn too late", forever{Decision: algorithms.Decision{Allowed: true, Delay: time.Hour}}, time.Hour, ErrTooLong, 0},
		{"broken", forever{err: broken}, time.Hour, broken, 0},
		{"denied again and again", forever{Decision: algorithms.Decision{RetryAfter: 25 * time.Second}}, time.Hour, ErrTooLong, 50 * time.Second},
		{"allowed", forever{Decision: algorithms.Decision{Allowed: true}}, time.Hour, nil, 0},
		{"allowed with a turn", forever{Decision: algorithms.Decision{Allowed: true, Delay: time.Second}}, time.Hour, nil, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
			defer cancel()

			began := time.Now()
			err := pacerOf(t, PacerConfig{Limiter: tt.limiter}).Wait(ctx, "k", 1)
			if took := time.Since(began); !errors.Is(err, tt.want) || took != tt.after {
				t.Errorf("%s: %v after %s, want %v after %s", tt.name, err, took, tt.want, tt.after)
			}
		})
	}
}

// A limiter that says only yes or no is asked at growing intervals.
func TestPacerAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := []time.Duration{}
		pacer := pacerOf(t, PacerConfig{Limiter: forever{asked: &asked, began: time.Now()}, MaxWait: 4 * time.Second})
		if err := pacer.Wait(t.Context(), "k", 1); !errors.Is(err, ErrTooLong) {
			t.Error(err)
		}
		if got := fmt.Sprint(asked); got != "[0s 10ms 30ms 70ms 150ms 310ms 630ms 1.27s 2.27s 3.27s]" {
			t.Errorf("asked at %s", got)
		}
	})
}

// No more calls wait than the bound, and each key has a line of its own.
func TestPacerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer := pacerOf(t, PacerConfig{Algorithm: algorithms.GCRA{}, Limit: limitFor(algorithms.GCRA{}, 1), MaxWaiting: 3})
		for _, key := range []string{"a", "b", "a", "b", "a"} {
			go pacer.Wait(t.Context(), key, 1)
			synctest.Wait()
		}
		if err := pacer.Wait(t.Context(), "c", 1); !errors.Is(err, ErrFull) {
			t.Errorf("with three calls waiting: %v", err)
		}

		// a and b have a turn at 10 s, and a another one at 20 s.
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if pacer.lines.waiting != 1 || len(pacer.lines.byKey) != 1 {
			t.Errorf("%d calls wait in %d lines, want one", pacer.lines.waiting, len(pacer.lines.byKey))
		}
		if err := pacer.Wait(t.Context(), "c", 1); err != nil {
			t.Errorf("with room: %v", err)
		}
		time.Sleep(10 * time.Second)
	})
}

// A limiter that panics leaves its line to the next call.
func TestPacerSurvivesPanics(t *testing.T) {
	pacer := pacerOf(t, PacerConfig{Limiter: panicking{}})
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was lost")
				}
			}()
			pacer.Wait(t.Context(), "k", 1)
		}()
	}
	if pacer.lines.waiting != 0 || len(pacer.lines.byKey) != 0 {
		t.Errorf("%d calls wait in %d lines", pacer.lines.waiting, len(pacer.lines.byKey))
	}
}

type panicking struct{ Limiter }

func (panicking) Allow(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
	panic("no limiter")
}

func TestNewPacerRefuses(t *testing.T) {
	for _, cfg := range []PacerConfig{
		{},
		{Algorithm: algorithms.GCRA{}},
		{Algorithm: algorithms.GCRA{}, Limiter: forever{}, Limit: limitFor(algorithms.GCRA{}, 1)},
	} {
		if _, err := NewPacer(cfg); err == nil || !strings.HasPrefix(err.Error(), "retry: new pacer: ") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// A request that is not sent has its body closed.
func TestUnsentBodyIsClosed(t *testing.T) {
	sent := &body{Reader: strings.NewReader("hello")}
	r := get(t.Context())
	r.Body = sent
	client := Paced(nil, pacerOf(t, PacerConfig{Limiter: forever{Decision: algorithms.Decision{RetryAfter: algorithms.Never}}}), nil)
	if _, err := client.RoundTrip(r); !errors.Is(err, ErrNever) || !sent.closed.Load() {
		t.Errorf("%v, and the body is closed: %t", err, sent.closed.Load())
	}
}
