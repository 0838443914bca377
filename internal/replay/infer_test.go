package replay_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// logOf is a log of clients that ask in bursts, some of them more than the limiter allows, by a clock of milliseconds.
func logOf(t *testing.T, a algorithms.Algorithm, l algorithms.Limit, seed uint64, requests int) *replay.Events {
	rng := rand.New(rand.NewPCG(seed, 7))
	pair, events := memory(), &replay.Events{}
	cost := int64(1)
	if l.Requests > 10_000 {
		cost = 1000
	}
	interval := float64(l.Window.Microseconds()) / float64(l.Requests/cost) / 3

	at := int64(1_700_000_000_000_000)
	for range requests {
		client := rng.IntN(8)
		at += int64(rng.ExpFloat64()*interval*[]float64{0.02, 0.1, 0.4}[rng.IntN(3)])/1000*1000 + 1000
		if rng.IntN(200) == 0 {
			at += int64(rng.ExpFloat64()*float64(l.Window.Microseconds())/1000) * 1000
		}

		key := fmt.Sprint("client ", client)
		c := algorithms.Charge{Policy: "p", Key: key, Cost: cost, At: time.UnixMicro(at)}
		c.Sides[0] = algorithms.Side{Algorithm: a, Limit: l}
		var into [1][2]algorithms.Observation
		if err := pair.Evaluate(t.Context(), []algorithms.Charge{c}, into[:]); err != nil {
			t.Fatal(err)
		}
		if o := into[0][0]; o.Status != algorithms.Judged {
			t.Fatal(o.Err)
		}

		events.Add(at, []byte(key), 1)
		events.Observe(replay.ObservedDenied)
		if into[0][0].Decision.Allowed {
			events.Observe(replay.ObservedAllowed)
		}
	}
	return events
}

// inferred is what a log of a limiter tells.
func inferred(t *testing.T, limiter string, l algorithms.Limit, seed uint64, requests int) *replay.InferReport {
	t.Helper()
	a, err := algorithms.ByName(limiter)
	if err != nil {
		t.Fatal(err)
	}
	report, err := replay.Infer(t.Context(), logOf(t, a, l, seed, requests), nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// The limiter that wrote a log is found, and no other explains it as well.
func TestInferFindsTheLimiter(t *testing.T) {
	type options = algorithms.Options
	counted, first := options{CountDenied: true}, options{Phase: algorithms.PhaseFirst}
	both, stepped := options{CountDenied: true, Phase: algorithms.PhaseFirst}, options{Refill: time.Second}

	for want, tt := range map[string]struct {
		limiter string
		limit   algorithms.Limit
	}{
		"fixed_window:30/1m":             {"fixed_window", algorithms.Limit{Requests: 30, Window: time.Minute}},
		"fixed_window:30/1m:phase=first": {"fixed_window", algorithms.Limit{Requests: 30, Window: time.Minute, Options: first}},
		"fixed_window_anchored:7/10s":    {"fixed_window_anchored", algorithms.Limit{Requests: 7, Window: 10 * time.Second}},
		"sliding_window_log:20/1h":       {"sliding_window_log", algorithms.Limit{Requests: 20, Window: time.Hour}},
		"sliding_window_log:13/1m:count_denied": {
			"sliding_window_log", algorithms.Limit{Requests: 13, Window: time.Minute, Options: counted},
		},
		"sliding_window_counter:20/10s": {"sliding_window_counter", algorithms.Limit{Requests: 20, Window: 10 * time.Second}},
		"sliding_window_counter:9/30s:phase=first:count_denied": {
			"sliding_window_counter", algorithms.Limit{Requests: 9, Window: 30 * time.Second, Options: both},
		},

		"token_bucket:10/1s:burst=20": {"token_bucket", algorithms.Limit{Requests: 10, Window: time.Second, Burst: 20}},
		"token_bucket:10/1s:burst=20:refill=1s": {
			"token_bucket", algorithms.Limit{Requests: 10, Window: time.Second, Burst: 20, Options: stepped},
		},
		"token_bucket:100/1m:burst=15": {"gcra", algorithms.Limit{Requests: 100, Window: time.Minute, Burst: 15}},
		"token_bucket:37/1h:burst=5":   {"gcra", algorithms.Limit{Requests: 37, Window: time.Hour, Burst: 5}},
		"token_bucket:5/1s:burst=11":   {"leaky_bucket", algorithms.Limit{Requests: 5, Window: time.Second, Burst: 11}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			report := inferred(t, tt.limiter, tt.limit, 1, 2000)
			if report.Best == nil || report.Best.Limiter != want || report.Best.Wrong != 0 || len(report.Others) != 0 {
				t.Errorf("%d denied: %+v, others %+v, next %+v", report.Denied, report.Best, report.Others, report.Next)
			}
		})
	}
}

// A log that several limiters explain does not tell one: all are named, and the text says that none is sure.
func TestInferSaysThatItIsNotSure(t *testing.T) {
	events := &replay.Events{}
	for i := range 12 {
		events.Add(1_700_000_000_000_000+int64(i)*1_000_000, []byte("k"), 1)
		events.Observe(replay.ObservedAllowed)
	}
	events.Observe(replay.ObservedDenied)

	report, err := replay.Infer(t.Context(), events, nil)
	if err != nil || report.Best == nil || report.Best.Wrong != 0 || len(report.Others) < 5 {
		t.Fatalf("%+v, %v", report, err)
	}
	if text := inferText(t, report); !strings.Contains(text, "sure    no: ") {
		t.Error(text)
	}
}

func inferText(t *testing.T, r *replay.InferReport) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	return b.String()
}

// What a log cannot tell is said.
func TestInferOfALogThatDoesNotTell(t *testing.T) {
	for name, tt := range map[string]struct {
		observed func(i int) replay.Observed
		want     string
	}{
		"no denial":  {func(int) replay.Observed { return replay.ObservedAllowed }, "any limit above its\ntraffic explains it"},
		"no answer":  {func(int) replay.Observed { return replay.Unobserved }, "100 requests without an answer in the log"},
		"all denied": {func(int) replay.Observed { return replay.ObservedDenied }, "every request was denied"},
		"the first of a key is denied": {func(i int) replay.Observed {
			if i%10 == 0 {
				return replay.ObservedDenied
			}
			return replay.ObservedAllowed
		}, "no limiter explains a denial"},
	} {
		t.Run(name, func(t *testing.T) {
			events := &replay.Events{}
			for i := range 100 {
				events.Add(1_700_000_000_000_000+int64(i)*1_000_000, fmt.Append(nil, "key ", i/10), 1)
				events.Observe(tt.observed(i))
			}

			report, err := replay.Infer(t.Context(), events, nil)
			if err != nil || report.Best != nil {
				t.Fatalf("%+v, %v", report.Best, err)
			}
			if text := inferText(t, report); !strings.Contains(text, tt.want) {
				t.Error(text)
			}
		})
	}
}

// A clock of whole seconds hides which of a second's requests was denied, and not which limiter denied it.
func TestInferByWholeSeconds(t *testing.T) {
	limit := algorithms.Limit{Requests: 100, Window: time.Minute, Burst: 40}
	exact := logOf(t, algorithms.TokenBucket{}, limit, 1, 5000)
	report, err := replay.Infer(t.Context(), exact.InWholeSeconds(), nil)
	if err != nil || report.Best == nil || report.Best.Limiter != "token_bucket:100/1m:burst=40" {
		t.Errorf("%v: %+v, others %+v", err, report.Best, report.Others)
	}
}

// A limiter that compares a rate with its limit after it has rounded it down is found in thousandths.
func TestInferOfARoundedRate(t *testing.T) {
	options := algorithms.Options{Phase: algorithms.PhaseFirst, CountDenied: true}
	rounded := algorithms.Limit{Requests: 20_999, Window: 10 * time.Second, Options: options}
	events := logOf(t, algorithms.SlidingWindowCounter{}, rounded, 1, 3000)
	report, err := replay.Infer(t.Context(), events, nil)
	if err != nil || report.Best == nil || report.Best.Cost != 1000 || report.Best.Wrong != 0 {
		t.Fatalf("%v: %+v", err, report.Best)
	}
	if text := inferText(t, report); !strings.Contains(text, "a rate above 20, rounded down, is denied") {
		t.Error(text)
	}
}
