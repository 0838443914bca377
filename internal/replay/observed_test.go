package replay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// Law: the agreement counts the requests in which the log says what the authoritative decides, and each other one in its
// direction, hour and key. The log is written by the oracle of the authoritative, and some lines are changed.
func TestAgreementCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom(algorithms.All).Draw(t, "algorithm")
		limit := algorithms.Limit{Requests: rapid.Int64Range(1, 4).Draw(t, "limit"), Window: 10 * time.Second}
		if algorithms.TraitsOf(algorithm).Burst != algorithms.BurstRefused {
			limit.Burst = rapid.Int64Range(1, 4).Draw(t, "burst")
		}

		var events replay.Events
		oracles := map[string]*limitertest.Oracle{}
		var agree, denies, allows, unknown, logAllows int64
		at := int64(1e15)
		for range rapid.IntRange(1, 100).Draw(t, "charges") {
			at += rapid.Int64Range(0, 5).Draw(t, "second") * 1e6
			key := fmt.Sprint("key ", rapid.IntRange(0, 3).Draw(t, "key"))
			cost := rapid.Int64Range(0, 2).Draw(t, "cost")
			if oracles[key] == nil {
				oracles[key] = limitertest.NewOracle(algorithm.Name())
			}
			model := oracles[key].Step(limit, cost, at).Allowed
			events.Add(at, []byte(key), cost)

			said := rapid.SampledFrom([]replay.Observed{replay.Unobserved, replay.ObservedAllowed, replay.ObservedDenied}).Draw(t, "said")
			events.Observe(said)
			switch {
			case cost == 0:
			case said == replay.Unobserved:
				unknown++
			case (said == replay.ObservedAllowed) == model:
				agree++
			case model:
				allows++
			default:
				denies++
			}
			if cost > 0 && said == replay.ObservedAllowed {
				logAllows++
			}
		}

		report, err := replay.Run(context.Background(), &events, replay.Config{
			Policy: "p", Pair: memory(), Sides: [2]algorithms.Side{
				{ID: "from", Algorithm: algorithm, Limit: limit},
				{ID: "to", Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 1, Window: time.Minute}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		checkAgreement(t, report.Policies[0].Observed, [5]int64{agree, denies, allows, unknown, logAllows})
	})
}

func checkAgreement(t *rapid.T, got *replay.Agreement, want [5]int64) {
	if got == nil {
		if want[0]+want[1]+want[2] > 0 {
			t.Fatalf("nothing observed, want %v", want)
		}
		return
	}
	counts := [4]int64{got.Agree, got.ModelDenies, got.ModelAllows, got.Unknown}
	if counts != [4]int64(want[:4]) || got.Requests != want[0]+want[1]+want[2] {
		t.Fatalf("%+v, want %v", got, want)
	}
	if r := got.ModelDeniesRatio; r != nil && *r != float64(want[1])/float64(want[4]) {
		t.Fatalf("ratio %g of %v", *r, want)
	}

	var sums [4]int64
	for _, h := range got.Hours {
		sums[0] += h.ModelDenies
		sums[1] += h.ModelAllows
	}
	for _, k := range got.KeysModelDenied {
		sums[2] += k.Count
	}
	for _, k := range got.KeysModelAllows {
		sums[3] += k.Count
	}
	if sums != [4]int64{want[1], want[2], want[1], want[2]} {
		t.Fatalf("hours and keys %v, want %v", sums, want)
	}
}

// A verdict rests on the model while it differs from the log by no more than the gate's thresholds.
func TestAgreementWarns(t *testing.T) {
	ratio := func(v float64) *float64 { return &v }
	tests := []struct {
		name string
		a    replay.Agreement
		want string
	}{
		{"alike", replay.Agreement{Requests: 100, Agree: 100, Agreement: ratio(1), ModelDeniesRatio: ratio(0)}, ""},
		{"at the threshold", replay.Agreement{Requests: 100, ModelDenies: 2, Agreement: ratio(0.98), ModelDeniesRatio: ratio(0.02)}, ""},
		{"denies", replay.Agreement{Requests: 1000, ModelDenies: 3, Agreement: ratio(0.997), ModelDeniesRatio: ratio(0.03)},
			"3 % of what the log allowed"},
		{"allows", replay.Agreement{Requests: 1000, ModelAllows: 6, Agreement: ratio(0.994), ModelAllowsRatio: ratio(0.6)},
			"60 % of what the log denied"},
		{"all", replay.Agreement{Requests: 100, ModelAllows: 3, Agreement: ratio(0.97)}, "3 % of all requests"},
	}

	for _, tt := range tests {
		if got := tt.a.Warning("p", gate.Config{}); !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
