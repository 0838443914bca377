package evidence

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A key with more than its share is always found, and no count is too high.
func TestWeightsFindHeavyKeys(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var w Weights
		exact := map[uint32]int64{}
		const n = 3000

		for range n {
			key := uint32(rng.IntN(500))
			if rng.IntN(3) == 0 {
				key = 1000
			}

			w.count(key)
			exact[key]++
		}

		top := w.Top(1)
		if len(w) > weighed || len(top) != 1 || top[0].Key != 1000 {
			t.Fatalf("seed %d: %v of %d keys, want key 1000", seed, top, len(w))
		}
		if most := exact[1000]; top[0].Count > most || top[0].Count < most-n/(weighed+1) {
			t.Fatalf("seed %d: key 1000 has %d, want at most %d and at least a share less", seed, top[0].Count, most)
		}
	}
}

func TestTopWeights(t *testing.T) {
	w := Weights{{1, 2}, {2, 5}, {1, 4}, {3, 1}}
	top := w.Top(2)
	if len(top) != 2 || top[0] != (Weight{1, 6}) || top[1] != (Weight{2, 5}) || top.Total() != 11 {
		t.Errorf("%v, want key 1 with 6 and key 2 with 5", top)
	}
	if top := w.Top(9); len(top) != 3 {
		t.Errorf("%v, want all three keys", top)
	}
}

// The keys that differ most survive packing and unpacking. With a secret their own hashes are not written.
func TestTicksNameTheWorstKeys(t *testing.T) {
	now := time.Unix(600_000, 0)
	allow := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}
	deny := algorithms.Observation{Status: algorithms.Judged}

	for name, secret := range map[string][]byte{"in clear": nil, "with a secret": []byte("secret")} {
		r := NewRecorder(secret)
		observe := func(key uint64, n int, o [2]algorithms.Observation) {
			for range n {
				r.Observe("k", key<<32|key, now, &o, &Setting{Cost: 1, Enforced: algorithms.Candidate})
			}
		}

		for key := range uint64(20) {
			observe(key, 1+int(key), [2]algorithms.Observation{allow, deny})
		}

		observe(99, 3, [2]algorithms.Observation{deny, allow})

		got := r.Batch(now, false).Slots[0].Ticks[0]
		if len(got.Denied) != heaviest || got.Denied[0].Key != r.mask.hash(19) {
			t.Errorf("%s: newly denied most %v, want %d keys and first 19's", name, got.Denied, heaviest)
		}
		if len(got.Allowed) != 1 || got.Allowed[0] != (Weight{r.mask.hash(99), 3}) {
			t.Errorf("%s: newly allowed most %v, want 99's with 3", name, got.Allowed)
		}
		if secret != nil && got.Denied[0].Key == 19 {
			t.Errorf("%s: a key's own hash is written", name)
		}
	}
}
