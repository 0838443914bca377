package retry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// refused is a refusal of a drawn style.
type refused struct {
	wait          time.Duration
	status, style int
}

var refusals = rapid.Custom(func(rt *rapid.T) refused {
	return refused{
		wait:   time.Duration(rapid.Int64Range(0, 70).Draw(rt, "wait")) * time.Second,
		status: rapid.SampledFrom([]int{429, 503}).Draw(rt, "status"), style: rapid.IntRange(0, 6).Draw(rt, "style"),
	}
})

// answer returns the response, and the earliest instant at which the request may come again.
func (d refused) answer() (*http.Response, time.Time) {
	// Instants are whole seconds on the wire.
	now := time.Now()
	at := now.Add(d.wait).Truncate(time.Second)
	seconds, instant := strconv.Itoa(int(d.wait/time.Second)), strconv.FormatInt(at.Unix(), 10)
	switch d.style {
	case 0:
		return answer(d.status, "Retry-After", seconds), now.Add(d.wait)
	case 1:
		return answer(d.status, "Retry-After", at.UTC().Format(http.TimeFormat)), at
	case 2:
		return answer(d.status, "RateLimit", `"a";r=0;t=`+seconds), now.Add(d.wait)
	case 3:
		return answer(d.status, "RateLimit-Remaining", "0", "RateLimit-Reset", seconds), now.Add(d.wait)
	case 4:
		return answer(d.status, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", instant), at
	case 5:
		return answer(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", instant), at
	}
	return answer(d.status), now
}

// No attempt is sent before the instant that the server has told, nor later than the bounds allow, and refusals end with the
// server's own answer.
func TestNeverEarlierThanTold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		attempts := rapid.IntRange(1, 6).Draw(rt, "attempts")
		offset := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(rt, "offset"))
		script := rapid.SliceOfN(refusals, attempts, attempts).Draw(rt, "script")
		bounds := Bounds{Attempts: attempts, MaxWait: time.Minute, Budget: 10}
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(offset)
			var earliest, latest time.Time
			sent, last := 0, (*http.Response)(nil)
			client := New(Config{Bounds: bounds, Base: server(func(*http.Request) *http.Response {
				now := time.Now()
				if sent > 0 && (now.Before(earliest) || now.After(latest)) {
					rt.Errorf("attempt %d at %s, want between %s and %s", sent, now, earliest, latest)
				}
				last, earliest = script[sent].answer()
				latest = now.Add(min(max(earliest.Sub(now), 0)+time.Second<<sent, time.Minute))
				sent++
				return last
			})})

			response, err := client.RoundTrip(get(t.Context()))
			if err != nil || response != last || last.Body.(*body).closed.Load() {
				rt.Errorf("%v %v, want the last answer with its body", response, err)
			}
			if over := time.Until(earliest) > time.Minute; sent > attempts || sent < attempts && !over && last.StatusCode != 403 {
				rt.Errorf("%d attempts, at most %d", sent, attempts)
			}
		})
	})
}

// The random part of each wait is uniform up to the smaller of the maximum and the doubled backoff: the source of numbers is
// asked for exactly that range, and what it returns is exactly what is waited.
func TestFullJitter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bounds := Bounds{
			Attempts: 10, MaxWait: 100 * time.Hour, Budget: 10,
			Backoff:    time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(rt, "backoff")),
			MaxBackoff: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(rt, "most")),
		}
		told := rapid.Int64Range(0, 100).Draw(rt, "told")
		numbers := rapid.SliceOfN(rapid.Uint64(), 9, 9).Draw(rt, "numbers")
		synctest.Test(t, func(t *testing.T) {
			repeated, previous, jitter := 0, time.Time{}, time.Duration(0)
			client := New(Config{Bounds: bounds, Base: server(func(*http.Request) *http.Response {
				now := time.Now()
				if want := previous.Add(time.Duration(told)*time.Second + jitter); repeated > 0 && !now.Equal(want) {
					rt.Errorf("repeat %d at %s, want %s", repeated, now, want)
				}
				previous = now
				return answer(429, "Retry-After", strconv.FormatInt(told, 10))
			})})

			client.retrier.random = func(n int64) int64 {
				want := min(float64(bounds.MaxBackoff), float64(bounds.Backoff)*math.Pow(2, float64(repeated)))
				if float64(n) != want {
					rt.Errorf("repeat %d: a number below %d, want %g", repeated, n, want)
				}
				jitter = time.Duration(numbers[repeated] % uint64(n))
				repeated++
				return int64(jitter)
			}
			if _, err := client.RoundTrip(get(t.Context())); err != nil || repeated != 9 {
				rt.Errorf("%d repeats, %v", repeated, err)
			}
		})
	})
}

// A thousand clients that are told one instant return spread over the backoff, and wider after each refusal.
func TestCrowdSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, told = 1000, 5 * time.Second
		began := time.Now()
		var mu sync.Mutex
		arrivals := map[int][]time.Duration{}
		numbers := rand.New(rand.NewPCG(1, 2))

		var all sync.WaitGroup
		for range clients {
			attempt, previous := 0, time.Duration(0)
			client := New(Config{Bounds: Bounds{Attempts: 4}, Base: server(func(*http.Request) *http.Response {
				mu.Lock()
				defer mu.Unlock()
				now := time.Since(began)
				arrivals[attempt] = append(arrivals[attempt], now-previous-told)
				attempt, previous = attempt+1, now
				return answer(429, "Retry-After", "5")
			})})
			client.retrier.random = func(n int64) int64 {
				mu.Lock()
				defer mu.Unlock()
				return numbers.Int64N(n)
			}
			all.Go(func() { client.RoundTrip(get(context.Background())) })
		}
		all.Wait()

		// In each of ten equal parts of the backoff 100 clients are expected, with a standard deviation of 9.5.
		for attempt := 1; attempt <= 3; attempt++ {
			var parts [10]int
			part := time.Second << (attempt - 1) / 10
			for _, late := range arrivals[attempt] {
				if late < 0 || late >= 10*part {
					t.Fatalf("attempt %d comes %s after the instant told", attempt, late)
				}
				parts[late/part]++
			}
			if most, least := slices.Max(parts[:]), slices.Min(parts[:]); most > 140 || least < 60 {
				t.Errorf("attempt %d: %v clients in the parts of %s", attempt, parts, 10*part)
			}
		}
	})
}

// Repeats are at most the reserve and a share of the calls, whatever servers answer, and calls that are answered fill the reserve.
func TestBudgetHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		share := rapid.SampledFrom([]float64{-1, 0, 0.01, 0.1, 0.5, 1, math.NaN(), 1e300}).Draw(rt, "share")
		refused := rapid.SliceOfN(rapid.Bool(), 1, 300).Draw(rt, "refused")
		synctest.Test(t, func(t *testing.T) {
			sent, refuses := 0, false
			client := New(Config{Bounds: Bounds{Budget: share}, Base: server(func(*http.Request) *http.Response {
				sent++
				if refuses {
					return answer(503)
				}
				return answer(200)
			})})

			// The model counts tokens as rational numbers would: in millionths.
			step, tokens := int64(100_000), int64(10_000_000)
			switch {
			case share < 0:
				step, tokens = 0, 0
			case share > 0:
				step = int64(min(share, 10) * 1e6)
			}
			want := 0
			for _, refuses = range refused {
				client.RoundTrip(get(t.Context()))
				tokens, want = min(tokens+step, 10_000_000), want+1
				for n := 0; refuses && n < 3 && tokens >= 1_000_000; n++ {
					tokens, want = tokens-1_000_000, want+1
				}
			}
			if sent != want {
				rt.Errorf("%d attempts for %d calls with a budget of %g, want %d", sent, len(refused), share, want)
			}
		})
	})
}

// A context that ends ends the wait, at that instant and with its error. A deadline that the wait would miss leaves the
// caller the answer.
func TestContextsEndWaits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		after := time.Duration(rapid.Int64Range(0, int64(30*time.Second)).Draw(rt, "after"))
		synctest.Test(t, func(t *testing.T) {
			sent := []*http.Response{}
			client := New(Config{Bounds: Bounds{Attempts: 100, Budget: 10}, Base: server(func(*http.Request) *http.Response {
				sent = append(sent, answer(429, "Retry-After", "7"))
				return sent[len(sent)-1]
			})})

			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(after, cancel)
			_, err := client.RoundTrip(get(ctx))
			if took := time.Since(began); !errors.Is(err, context.Canceled) || took != after {
				rt.Errorf("%v after %s, want the context's after %s", err, took, after)
			}
			for i, response := range sent {
				if !response.Body.(*body).closed.Load() {
					rt.Errorf("the body of response %d is left open", i)
				}
			}

			began = time.Now()
			ctx, cancel = context.WithTimeout(t.Context(), 7*time.Second-1)
			defer cancel()
			response, err := client.RoundTrip(get(ctx))
			if err != nil || response.StatusCode != 429 || time.Since(began) != 0 {
				rt.Errorf("%v %v after %s, want the answer at once", response, err, time.Since(began))
			}
		})
	})
}

// Bodies are sent from their beginning each time. A body that cannot be sent again is sent once.
func TestBodiesAreRewound(t *testing.T) {
	broken := func() (io.ReadCloser, error) { return nil, errors.New("the file is gone") }
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		want   string
	}{
		{"a buffer", func(*http.Request) {}, "[hello hello hello]"},
		{"no way back", func(r *http.Request) { r.GetBody = nil }, "[hello]"},
		{"a broken way back", func(r *http.Request) { r.GetBody = broken }, "[hello]"},
		{"no body", func(r *http.Request) { r.Body, r.GetBody = nil, nil }, "[  ]"},
		{"an empty body", func(r *http.Request) { r.Body, r.GetBody = http.NoBody, nil }, "[  ]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen []string
			client := New(Config{Bounds: Bounds{Attempts: 3}, Base: server(func(r *http.Request) *http.Response {
				text := []byte{}
				if r.Body != nil {
					text, _ = io.ReadAll(r.Body)
					r.Body.Close()
				}
				seen = append(seen, string(text))
				return answer(429)
			})})

			r, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://example.com/", bytes.NewReader([]byte("hello")))
			tt.change(r)
			response, err := client.RoundTrip(r)
			if err != nil || response.Body.(*body).closed.Load() {
				t.Errorf("%s: %v, and the answer must be left open", tt.name, err)
			}
			if fmt.Sprint(seen) != tt.want {
				t.Errorf("%s: %q, want %s", tt.name, seen, tt.want)
			}
		})
	}
}

// Only requests that may be repeated are.
func TestRepeatable(t *testing.T) {
	never := func(*http.Request) bool { return false }
	always := func(*http.Request) bool { return true }
	for _, tt := range []struct {
		method, key string
		repeatable  func(*http.Request) bool
		want        int
	}{
		{"GET", "", nil, 2}, {"", "", nil, 2}, {"HEAD", "", nil, 2}, {"OPTIONS", "", nil, 2}, {"TRACE", "", nil, 2},
		{"PUT", "", nil, 2}, {"DELETE", "", nil, 2}, {"POST", "", nil, 1}, {"PATCH", "", nil, 1}, {"get", "", nil, 1},
		{"POST", "6f1e", nil, 2}, {"POST", "", always, 2}, {"GET", "", never, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			client := New(Config{Bounds: Bounds{Attempts: 2}, Repeatable: tt.repeatable, Base: server(func(*http.Request) *http.Response {
				sent++
				return answer(503)
			})})

			r := get(t.Context())
			r.Method = tt.method
			if tt.key != "" {
				r.Header.Set("Idempotency-Key", tt.key)
			}
			if client.RoundTrip(r); sent != tt.want {
				t.Errorf("%+v: %d attempts", tt, sent)
			}
		})
	}
}

// endless is a body that never ends, and hanging is one that never says anything.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type hanging struct{ closed chan struct{} }

func (h hanging) Read([]byte) (int, error) {
	<-h.closed
	return 0, io.ErrUnexpectedEOF
}

func (h hanging) Close() error {
	select {
	case <-h.closed:
	default:
		close(h.closed)
	}
	return nil
}

// Of the body of a refused attempt no more than a bound is read, and for no longer than a second. A slow body does not make
// the wait longer.
func TestBodiesAreDrainedWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := &body{Reader: endless{}}
		discard(long)
		if n := long.read.Load(); n != mostDrained || !long.closed.Load() {
			t.Errorf("%d bytes read, closed %t", n, long.closed.Load())
		}

		began, sent := time.Now(), 0
		client := New(Config{Base: server(func(*http.Request) *http.Response {
			sent++
			if sent > 1 {
				return answer(200)
			}
			response := answer(429, "Retry-After", "3")
			response.Body = hanging{make(chan struct{})}
			return response
		})})
		client.retrier.random = func(int64) int64 { return 0 }
		response, err := client.RoundTrip(get(t.Context()))
		if err != nil || response.StatusCode != 200 || time.Since(began) != 3*time.Second {
			t.Errorf("%v %v after %s, want 200 after 3 s", response, err, time.Since(began))
		}
	})
}

// An error of the connection is not repeated, and other answers are passed on as they are.
func TestOtherAnswersPass(t *testing.T) {
	broken := errors.New("connection reset")
	client := New(Config{Base: failing{broken}})
	if _, err := client.RoundTrip(get(t.Context())); !errors.Is(err, broken) {
		t.Errorf("%v, want the base's error", err)
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// A real client and server: the connection is used again, and the client's own timeout is heard.
func TestRealServer(t *testing.T) {
	connections := map[string]bool{}
	requests := 0
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		connections[r.RemoteAddr] = true
		requests++
		if r.URL.Path == "/later" {
			w.Header().Set("Retry-After", "30")
		}
		if text, _ := io.ReadAll(r.Body); requests%3 != 0 || string(text) != "hello" {
			http.Error(w, strings.Repeat("too many requests ", 100), http.StatusTooManyRequests)
		}
	}))
	defer s.Close()

	transport := New(Config{Base: s.Client().Transport, Bounds: Bounds{Backoff: 1, MaxBackoff: 1}})
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	r, _ := http.NewRequestWithContext(t.Context(), "PUT", s.URL, strings.NewReader("hello"))
	response, err := client.Do(r)
	if err != nil || response.StatusCode != 200 || requests != 3 || len(connections) != 1 {
		t.Fatalf("%v %v, %d requests over %d connections, want 200 from the third over one", response, err, requests, len(connections))
	}
	response.Body.Close()

	response, err = client.Get(s.URL + "/later")
	if err != nil || response.StatusCode != 429 || requests != 4 {
		t.Fatalf("%v %v, %d requests: want the answer, since the wait is longer than the client's timeout", response, err, requests)
	}
	response.Body.Close()
}
