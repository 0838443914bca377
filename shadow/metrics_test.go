package shadow_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/shadowlimit/shadowlimit/shadow"
)

// series returns how many series there are, and how many of each metric.
func series(t testing.TB, c prometheus.Collector) (total int, byName map[string]int) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}

	byName = map[string]int{}
	for _, f := range families {
		total += len(f.GetMetric())
		byName[f.GetName()] = len(f.GetMetric())
	}
	return total, byName
}

// The number of series does not depend on keys. All are there from the start, but for the fleet's gauges.
func TestSeriesAreBounded(t *testing.T) {
	h := open(t, file, shadow.Config{Redis: redisAt(t, miniredis.RunT(t).Addr())})
	_, names := series(t, h)
	for name, want := range map[string]int{
		"shadowlimit_comparisons_total": 9, "shadowlimit_decisions_total": 12, "shadowlimit_divergence_causes_total": 16, "shadowlimit_stage": 5,
		"shadowlimit_gate_verdict": 3, "shadowlimit_evaluation_duration_seconds": 2, "shadowlimit_breaker_open": 1, "shadowlimit_build_info": 1,
	} {
		if names[name] != want {
			t.Errorf("%d series of %s before any request, want %d", names[name], name, want)
		}
	}

	for n := range 3000 {
		ask(t, h, fmt.Sprint("user-", n))
	}

	// The fleet's gauges come with its first count and its first judgement, seconds after the start: their names are new.
	_, after := series(t, h)
	for name, n := range after {
		if was, known := names[name]; known && n != was || n > 50 {
			t.Errorf("%d series of %s after 3,000 keys, %d before: no label may have a value for each key", n, name, was)
		}
	}
	if problems, err := testutil.CollectAndLint(h); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestDifferencesAreHistograms(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	h := open(t, file, shadow.Config{Clock: func() time.Time { return at }}) // 2 and 1 an hour
	for range 3 {
		ask(t, h, "alice")
	}

	const want = `
# HELP shadowlimit_remaining_difference The candidate's remaining minus the authoritative's, where both know it.
# TYPE shadowlimit_remaining_difference histogram
shadowlimit_remaining_difference_bucket{name="test",policy="per-user",le="-1000"} 0
shadowlimit_remaining_difference_bucket{name="test",policy="per-user",le="-100"} 0
shadowlimit_remaining_difference_bucket{name="test",policy="per-user",le="-10"} 0
shadowlimit_remaining_difference_bucket{name="test",policy="per-user",le="-1"} 1
shadowlimit_remaining_difference_bucket{name="test",policy="per-user",le="0"} 3
shadowlimit_remaining_difference_bucket{name="test",policy="per-user",le="1"} 3
shadowlimit_remaining_difference_bucket{name="test",policy="per-user",le="10"} 3
shadowlimit_remaining_difference_bucket{name="test",policy="per-user",le="100"} 3
shadowlimit_remaining_difference_bucket{name="test",policy="per-user",le="1000"} 3
shadowlimit_remaining_difference_bucket{name="test",policy="per-user",le="+Inf"} 3
shadowlimit_remaining_difference_sum{name="test",policy="per-user"} -1
shadowlimit_remaining_difference_count{name="test",policy="per-user"} 3
`
	if err := testutil.CollectAndCompare(h, strings.NewReader(want), "shadowlimit_remaining_difference"); err != nil {
		t.Error(err)
	}
}

// An instance that has not heard of the fleet for a minute does not know its verdict any
// more: it leaves those series out and keeps its own.
func TestOldAssessmentsAreNoMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, file, shadow.Config{})
		ask(t, h, "alice")
		if err := errors.Join(h.Sync(ctx(t)), h.Close(ctx(t))); err != nil {
			t.Fatal(err)
		}

		fleets := []string{"gate_score", "gate_verdict", "gate_condition", "gate_regression", "harm_score", "alarm", "instances", "keys"}
		count := func() (n int) {
			_, names := series(t, h)
			for _, name := range fleets {
				n += names["shadowlimit_"+name]
			}
			if names["shadowlimit_stage"] != 5 || names["shadowlimit_evidence_age_seconds"] != 1 || names["shadowlimit_gate_bar"] != 3 || names["shadowlimit_decisions_total"] != 12 {
				t.Errorf("the instance's own series are %v", names)
			}
			return n
		}

		fresh := count()
		time.Sleep(59 * time.Second)
		if n := count(); n != fresh || n < len(fleets) {
			t.Errorf("%d series of the fleet after 59 s, %d at once", n, fresh)
		}

		time.Sleep(time.Second)
		if n := count(); n != 0 {
			t.Errorf("%d series of the fleet after a minute, want none", n)
		}
	})
}

// Somebody who waits for the next step sees what it lacks, what its scores need, and from when on time allows it.
func TestNextStepInMetrics(t *testing.T) {
	h := open(t, file, shadow.Config{})
	ask(t, h, "alice")
	if err := h.Sync(ctx(t)); err != nil {
		t.Fatal(err)
	}
	text, err := testutil.CollectAndFormat(h, expfmt.TypeTextPlain,
		"shadowlimit_gate_bar", "shadowlimit_gate_condition", "shadowlimit_gate_not_before_timestamp_seconds")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`gate_bar{name="test",policy="per-user",score="evidence"} 400`,
		`gate_condition{condition="instances",name="test",policy="per-user"} 1`,
		`gate_condition{condition="time seen",name="test",policy="per-user"} 0`,
		`gate_not_before_timestamp_seconds{name="test",policy="per-user"} 1`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// Clients get the decisions of enforced sides, and those of fallbacks: no other query says how many were denied.
func TestDecisionsThatClientsGot(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, file, shadow.Config{Redis: client}) // 2 and 1 an hour
	h.Grow()
	got := map[bool]float64{}
	asked := func() {
		for n := range 200 {
			for range 3 {
				got[ask(t, h, fmt.Sprint("user-", n)).Allowed]++
			}
		}
	}
	asked()
	promote(t, h, client)
	asked()

	text, err := testutil.CollectAndFormat(h, expfmt.TypeTextPlain, "shadowlimit_decisions_total")
	if err != nil {
		t.Fatal(err)
	}
	sum := map[bool]float64{}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `enforced="true"`) && !strings.Contains(line, `decision="error"`) {
			var v float64
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &v); err != nil {
				t.Fatal(err)
			}
			sum[strings.Contains(line, `decision="allow"`)] += v
		}
	}
	if !maps.Equal(sum, got) {
		t.Errorf("the metric has %v, clients got %v\n%s", sum, got, text)
	}
}

// What was counted of another candidate is not that of this one.
func TestComparisonsAreOfOneFingerprint(t *testing.T) {
	h := open(t, file, shadow.Config{})
	ask(t, h, "alice")
	fingerprint := func() string {
		text, err := testutil.CollectAndFormat(h, expfmt.TypeTextPlain, "shadowlimit_comparisons_total")
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`fingerprint="\w+"`).FindString(string(text))
	}
	before, counted := fingerprint(), comparisons(t, h, "")
	if before == "" || counted != 1 {
		t.Fatalf("%g comparisons of %s, want 1 of a fingerprint", counted, before)
	}

	if err := h.Reload(setOf(t, "limit: 1,", "limit: 3,")); err != nil {
		t.Fatal(err)
	}
	if after, counted := fingerprint(), comparisons(t, h, ""); after == before || counted != 0 {
		t.Errorf("%g comparisons of %s after a reload, %s before it", counted, after, before)
	}
}
