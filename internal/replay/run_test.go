package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

func sides(from, to algorithms.Algorithm, l algorithms.Limit) [2]algorithms.Side {
	return [2]algorithms.Side{{ID: "from", Algorithm: from, Limit: l}, {ID: "to", Algorithm: to, Limit: l}}
}

func memory() algorithms.Pair { return algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}) }

// sent is a check of the traffic.
type sent struct {
	at, cost int64
	key      string
}

// TestRunAgreesWithOracle replays shuffled traffic and compares each decision and the
// counts with the oracle, which judges in the order of time.
func TestRunAgreesWithOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	limit := algorithms.Limit{Requests: 5, Window: 10 * time.Second}

	var traffic []sent
	var events replay.Events
	for range 5000 {
		s := sent{1e15 + rng.Int64N(600)*1e6, rng.Int64N(4), fmt.Sprint("key ", rng.IntN(20))}
		traffic = append(traffic, s)
		events.Add(s.at, []byte(s.key), s.cost)
	}

	var lines bytes.Buffer
	report, err := replay.Run(context.Background(), &events, replay.Config{
		Policy: "p", Pair: memory(), Decisions: &lines,
		Sides: sides(algorithms.FixedWindow{}, algorithms.SlidingWindowCounter{}, limit),
	})
	if err != nil {
		t.Fatal(err)
	}

	slices.SortStableFunc(traffic, func(a, b sent) int { return int(a.at - b.at) })
	oracles := map[string][2]*limitertest.Oracle{}
	var want replay.PolicyReport
	scanner := json.NewDecoder(&lines)

	for _, s := range traffic {
		if _, ok := oracles[s.key]; !ok {
			oracles[s.key] = [2]*limitertest.Oracle{
				limitertest.NewOracle("fixed_window"),
				limitertest.NewOracle("sliding_window_counter"),
			}
		}

		a, c := oracles[s.key][0].Step(limit, s.cost, s.at), oracles[s.key][1].Step(limit, s.cost, s.at)
		if s.cost > 0 { // a look is no comparison
			count(&want, a.Allowed, c.Allowed)
		}

		checkLine(t, scanner, s, c)
	}

	got := report.Policies[0]
	compared := want.AgreeAllow + want.AgreeDeny + want.NewlyDenied + want.NewlyAllowed
	if compared == 5000 {
		t.Error("the traffic has no looks")
	}
	if got.Comparisons != compared || got.AgreeAllow != want.AgreeAllow || got.AgreeDeny != want.AgreeDeny ||
		got.NewlyDenied != want.NewlyDenied || got.NewlyAllowed != want.NewlyAllowed || got.Keys != 20 {
		t.Errorf("report %+v, want %+v", got, want)
	}

	if want.NewlyDenied == 0 {
		t.Error("the traffic has no divergence, so this test cannot fail")
	}
}

// checkLine reads the line of a check and compares the candidate's decision.
func checkLine(t *testing.T, lines *json.Decoder, s sent, candidate algorithms.Decision) {
	t.Helper()

	var line struct {
		TUS                      int64 `json:"t_us"`
		Key                      string
		Cost                     int64
		Authoritative, Candidate struct {
			Allowed    bool
			Remaining  int64
			RetryAfter *int64 `json:"retry_after_us"`
			ResetAfter int64  `json:"reset_after_us"`
		}
	}
	if err := lines.Decode(&line); err != nil {
		t.Fatal(err)
	}
	if line.TUS != s.at || line.Key != s.key || line.Cost != s.cost {
		t.Fatalf("line %+v is not check %+v", line, s)
	}

	got := line.Candidate
	if got.Allowed != candidate.Allowed || got.Remaining != candidate.Remaining ||
		*got.RetryAfter != candidate.RetryAfter.Microseconds() || got.ResetAfter != candidate.ResetAfter.Microseconds() {
		t.Fatalf("candidate of %+v: %+v, want %+v", s, got, candidate)
	}
}

func count(p *replay.PolicyReport, authoritative, candidate bool) {
	switch {
	case authoritative && candidate:
		p.AgreeAllow++
	case authoritative:
		p.NewlyDenied++
	case candidate:
		p.NewlyAllowed++
	default:
		p.AgreeDeny++
	}
}

func TestTiesKeepTheOrderOfCollection(t *testing.T) {
	var events replay.Events
	for cost := int64(1); cost <= 3; cost++ {
		events.Add(1e15, []byte("k"), cost)
	}
	events.Add(1e15-1, []byte("k"), 9)

	var lines bytes.Buffer
	_, err := replay.Run(context.Background(), &events, replay.Config{
		Policy: "p", Pair: memory(), Decisions: &lines,
		Sides: sides(algorithms.GCRA{}, algorithms.TokenBucket{}, algorithms.Limit{Requests: 100, Window: time.Minute}),
	})
	if err != nil {
		t.Fatal(err)
	}

	var costs []string
	for line := range strings.Lines(lines.String()) {
		_, rest, _ := strings.Cut(line, `"cost":`)
		costs = append(costs, rest[:1])
	}

	if got := strings.Join(costs, " "); got != "9 1 2 3" {
		t.Errorf("costs in replay order %s, want 9 1 2 3", got)
	}
}

func TestNeverIsNull(t *testing.T) {
	var events replay.Events
	events.Add(0, []byte("a\n\"é"), 11)

	var lines bytes.Buffer
	_, err := replay.Run(context.Background(), &events, replay.Config{
		Policy: "p", Pair: memory(), Decisions: &lines,
		Sides: sides(algorithms.FixedWindow{}, algorithms.GCRA{}, algorithms.Limit{Requests: 10, Window: time.Second}),
	})
	if err != nil {
		t.Fatal(err)
	}

	side := `{"allowed":false,"remaining":10,"retry_after_us":null,"reset_after_us":0,"delay_us":0}`
	want := `{"t_us":0,"key":"a\n\"é","cost":11,"authoritative":` + side + `,"candidate":` + side + "}\n"
	if lines.String() != want {
		t.Errorf("got  %swant %s", lines.String(), want)
	}
}

// A key of a log is the key that a service would make of it.
func TestKeysOfALogAreBounded(t *testing.T) {
	var events replay.Events
	long := strings.Repeat("long", 100)
	for range 2 {
		events.AddRaw(0, []byte(long), 1)
		events.Add(0, []byte("#kept"), 1)
	}
	if want := []string{algorithms.BoundedKey(long), "#kept"}; !slices.Equal(events.Keys(), want) {
		t.Errorf("keys %q, want %q", events.Keys(), want)
	}
}

func TestSideErrorEndsTheReplay(t *testing.T) {
	var events replay.Events
	events.Add(0, []byte("k"), 1)
	_, err := replay.Run(context.Background(), &events, replay.Config{
		Policy: "p", Pair: memory(),
		Sides: sides(algorithms.FixedWindow{}, algorithms.LeakyBucket{}, algorithms.Limit{Requests: 10, Window: time.Second}),
	})
	if err == nil || !strings.Contains(err.Error(), "candidate") || !strings.Contains(err.Error(), "burst is missing") {
		t.Errorf("error %v, want the candidate's missing burst", err)
	}
}
