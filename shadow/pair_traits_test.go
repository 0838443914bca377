package shadow_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// describedWindow is a user's algorithm that tells its traits.
type describedWindow struct{ window algorithms.FixedWindow }

var _ algorithms.Described = describedWindow{}

func (d describedWindow) Name() string                      { return "described_window" }
func (d describedWindow) Validate(l algorithms.Limit) error { return d.window.Validate(l) }
func (d describedWindow) Traits() algorithms.Traits         { return algorithms.TraitsOf(d.window) }

func (d describedWindow) Step(s algorithms.State, l *algorithms.Limit, cost, at int64) (
	algorithms.State, algorithms.Decision, error,
) {
	return d.window.Step(s, l, cost, at)
}

// The differences of a user's algorithm that tells its traits have a cause, although its
// panics are caught by a wrapper.
func TestTraitsOfAUsersAlgorithmGiveACause(t *testing.T) {
	pair, err := shadow.NewPair(shadow.PairConfig{
		Authoritative: shadow.Side{Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 100, Window: time.Hour}},
		Candidate:     shadow.Side{Algorithm: describedWindow{}, Limit: algorithms.Limit{Requests: 5, Window: time.Hour}},
	})
	if err == nil {
		err = pair.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close(t.Context())

	for range 20 {
		pair.Allow(t.Context(), "key", 1)
	}

	// An algorithm that may panic or hang is asked after the answer.
	if err := pair.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := metricOf(t, pair, "shadowlimit_divergence_causes_total", "other"); n != 0 {
		t.Errorf("%v differences have the cause other", n)
	}
	if n := metricOf(t, pair, "shadowlimit_divergence_causes_total", "limit_value"); n == 0 {
		t.Error("no difference has the cause limit_value")
	}
}
