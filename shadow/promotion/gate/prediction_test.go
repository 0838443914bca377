package gate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// binomial draws how many of n happen, each by its own chance: the distance from one to the
// next is geometric.
func binomial(rng *rand.Rand, n int64, share float64) (happened int64) {
	next := func() float64 { return 1 + math.Floor(rng.ExpFloat64()/-math.Log1p(-share)) }
	for at := next(); at <= float64(n); at += next() {
		happened++
	}
	return happened
}

// clientHours simulates 72 hours of clients with different numbers of requests, of which
// the candidate denies a share. From hour 48 on the share of the clients in the canary is
// larger by a factor, and that of all clients by another.
func clientHours(seed uint64, percent, factor, all float64) []divergence.Hour {
	rng := rand.New(rand.NewPCG(seed, 3))
	type client struct {
		hash   uint64
		volume float64
		denied float64
	}
	clients := make([]client, 3000)
	for i := range clients {
		clients[i] = client{rng.Uint64(), rng.ExpFloat64() * 40, 0.05 * rng.Float64()}
	}

	hours := make([]divergence.Hour, 72)
	for h := range hours {
		hours[h] = divergence.Hour{Unix: int64(h), Cells: make([]divergence.Cell, divergence.NumCells)}
		for _, c := range clients {
			role, share := 0, c.denied
			if h >= 48 {
				share *= all
				if divergence.InCanary(c.hash, percent) {
					role, share = 1, share*factor
				}
			}

			cell := &hours[h].Cells[divergence.CellOf(c.hash)]
			n := int64(c.volume)
			cell.Decided[role] += n
			cell.Denied[role] += binomial(rng, n, share)
		}
	}
	return hours
}

func TestPrediction(t *testing.T) {
	tests := []struct {
		name                 string
		percent, factor, all float64
		off                  bool
	}{
		{"as predicted", 10, 1, 1, false},
		{"as predicted, all deny twice as much", 10, 1, 2, false},
		{"clients try again and again", 10, 2, 1, true},
		{"clients try again and again, all deny twice as much", 50, 2, 2, true},
		{"clients go away", 50, 0.5, 1, true},
		{"as predicted in a small canary", 1, 1, 1, false},
	}

	for _, tt := range tests {
		for seed := range uint64(5) {
			p := Predict(clientHours(seed, tt.percent, tt.factor, tt.all), tt.percent, 48)
			if p == nil || p.Off() != tt.off {
				t.Errorf("%s, seed %d: %v, want off %t", tt.name, seed, p, tt.off)
			}
		}
	}
}

func TestPredictionsThatCannotBe(t *testing.T) {
	hours := clientHours(1, 10, 1, 1)

	for _, tt := range []struct {
		name    string
		hours   []divergence.Hour
		percent float64
		since   int64
	}{
		{"no hours", nil, 10, 48},
		{"nothing before the canary", hours[48:], 10, 48},
		{"nothing in the canary", hours[:48], 10, 48},
		{"a canary of less than a slot", hours, 0.05, 48},
		{"all keys", hours, 100, 48},
	} {
		if p := Predict(tt.hours, tt.percent, tt.since); p != nil {
			t.Errorf("%s: %v, want none", tt.name, p)
		}
	}

	var none *Prediction
	if none.Off() {
		t.Error("no prediction is off")
	}
}

// The margin is as wide as chance among clients makes it: of predictions that are
// right about one in twenty is outside two deviations.
func TestMarginsHold(t *testing.T) {
	const runs = 100
	outside := 0
	for seed := range uint64(runs) {
		p := Predict(clientHours(100+seed, 10, 1, 1), 10, 48)

		// The margin is never below a fifth of the prediction.
		if math.Abs(p.Seen-p.Predicted) > p.Margin {
			outside++
		}
	}

	if outside > 5 {
		t.Errorf("%d of %d right predictions are off", outside, runs)
	}
}

// A canary whose requests are all in one cell, such as one client's, tells nothing of
// how far clients differ.
func TestNoPredictionFromOneCell(t *testing.T) {
	var hours []divergence.Hour
	for h := range 4 {
		hour := divergence.Hour{Unix: int64(h), Cells: make([]divergence.Cell, divergence.NumCells)}
		role := h / 2 // in the canary from hour 2 on
		hour.Cells[0].Decided[role], hour.Cells[0].Denied[role] = 1000, 100

		for cell := range hour.Cells {
			if _, upper := divergence.CellRange(cell); upper == 10 {
				hour.Cells[cell].Decided[0], hour.Cells[cell].Denied[0] = 1000, 100
			}
		}
		hours = append(hours, hour)
	}

	if p := Predict(hours, 1, 2); p != nil {
		t.Error(p)
	}
}
