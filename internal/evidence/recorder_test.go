package evidence_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func observed(o evidence.Outcome) *[2]algorithms.Observation {
	allow := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}
	deny := algorithms.Observation{Status: algorithms.Judged}
	failed := algorithms.Failure(errors.New("no answer"))

	return map[evidence.Outcome]*[2]algorithms.Observation{
		evidence.AgreeAllow:         {allow, allow},
		evidence.AgreeDeny:          {deny, deny},
		evidence.NewlyDenied:        {allow, deny},
		evidence.NewlyAllowed:       {deny, allow},
		evidence.CandidateError:     {allow, failed},
		evidence.AuthoritativeError: {failed, allow},
		evidence.Inconclusive:       {allow, algorithms.Skip(algorithms.QueueFull)},
	}[o]
}

var allOutcomes = []evidence.Outcome{
	evidence.AgreeAllow, evidence.AgreeDeny, evidence.NewlyDenied, evidence.NewlyAllowed,
	evidence.CandidateError, evidence.AuthoritativeError, evidence.Inconclusive,
}

func TestConcurrentObservationsAddUp(t *testing.T) {
	r := evidence.NewRecorder(nil)
	var all sync.WaitGroup
	const each = 2000

	for g := range uint64(8) {
		all.Go(func() {
			for n := range uint64(each) {
				outcome := allOutcomes[(g+n)%uint64(len(allOutcomes))]
				r.Observe("k", n*0x9e3779b97f4a7c15, noon, observed(outcome), &evidence.Setting{Cost: 1})
				if n%500 == 0 {
					r.Batch(noon, true)
				}
			}
		})
	}

	all.Wait()
	var sum int64
	for waits := true; waits; {
		b := r.Batch(noon, true)
		for i := range b.Slots {
			sum += b.Slots[i].Tally.Evaluations()
		}
		r.Written(b)
		waits = r.Changed()
	}

	if sum != 8*each {
		t.Errorf("counted %d, want %d", sum, 8*each)
	}
}

func TestPlainLimitersAreNotCompared(t *testing.T) {
	r := evidence.NewRecorder(nil)
	o := &[2]algorithms.Observation{{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}, algorithms.Observation{}}
	r.Observe("k", 1, noon, o, &evidence.Setting{Cost: 1})

	totals := r.Totals()
	tally, decisions := totals.Outcomes, totals.Decisions
	if tally != (evidence.Tally{}) || decisions[0].Allowed != 1 || decisions[1] != (evidence.Decisions{}) {
		t.Errorf("tally %v, decisions %+v", tally, decisions)
	}
}

// Checks of cost 0 are allowed by both sides, whatever they are. They do not dilute a ratio.
func TestPeeksAreNotCompared(t *testing.T) {
	r := evidence.NewRecorder(nil)
	for range 100 {
		r.Observe("k", 1, noon, observed(evidence.AgreeAllow), &evidence.Setting{})
	}

	totals := r.Totals()
	if totals.Outcomes != (evidence.Tally{}) || totals.Decisions[0].Allowed != 100 || totals.Decisions[1].Allowed != 100 {
		t.Errorf("outcomes %v, decisions %+v", totals.Outcomes, totals.Decisions)
	}
	if s := r.Batch(noon, true); len(s.Keys[evidence.KeysSeen]) > 0 {
		t.Errorf("keys %v: want none", s.Keys)
	}

	// A request that costs something is compared, so the zeros above are the peeks'.
	r.Observe("k", 1, noon, observed(evidence.AgreeAllow), &evidence.Setting{Cost: 1})
	if totals := r.Totals(); totals.Outcomes[evidence.AgreeAllow] != 1 || totals.Decisions[0].Allowed != 101 {
		t.Errorf("with one request that costs 1: outcomes %v, decisions %+v", totals.Outcomes, totals.Decisions)
	}
}

// A store whose clock runs away costs a bounded number of hours.
func TestClocksThatRunAwayAreBounded(t *testing.T) {
	r := evidence.NewRecorder(nil)
	for n := range 10_000 {
		r.Observe("k", 7, noon.Add(time.Duration(n*n)*time.Hour), observed(evidence.NewlyDenied), &evidence.Setting{Cost: 1})
	}
	if n := len(r.Batch(noon, true).Slots); n > 30 {
		t.Errorf("%d minutes are kept", n)
	}
}

func TestSecretsHideKeys(t *testing.T) {
	plain, secret := evidence.NewRecorder(nil), evidence.NewRecorder([]byte("pepper"))
	for _, r := range []*evidence.Recorder{plain, secret} {
		r.Observe("alice@example.com", 99, noon, observed(evidence.NewlyDenied), &evidence.Setting{Cost: 1})
	}

	p, s := plain.Batch(noon, true), secret.Batch(noon, true)
	if got := p.Tops[evidence.KeysNewlyDenied][0].Key; got != "alice@example.com" {
		t.Errorf("without a secret the key is %q", got)
	}
	if got := s.Tops[evidence.KeysNewlyDenied][0].Key; len(got) != 33 || strings.Contains(got, "alice") {
		t.Errorf("with a secret the key is %q", got)
	}
	if sample := s.Slots[0].Keys[evidence.OfAllows]; len(sample) != 1 || sample[0] == 99 {
		t.Errorf("with a secret the hash is %v", sample)
	}
}

func TestTopFindsFrequentKeysWithinItsError(t *testing.T) {
	r := evidence.NewRecorder(nil)
	const rounds = 3000
	const hash = 1 // all keys are in one stripe, whose list is too short for them
	for n := range uint64(rounds) {
		r.Observe("often", hash, noon, observed(evidence.NewlyDenied), &evidence.Setting{Cost: 1})
		r.Observe(fmt.Sprint("rare-", n), hash, noon, observed(evidence.NewlyDenied), &evidence.Setting{Cost: 1})
	}

	top := r.Batch(noon, true).Tops[evidence.KeysNewlyDenied]
	if top[0].Key != "often" || top[0].Count < rounds || top[0].Count-top[0].Error > rounds {
		t.Errorf("top %+v, want often with %d", top[0], rounds)
	}
}

// BenchmarkObserve observes keys that are all new, and a thousand keys again and again, also with a secret: clients of the sample
// cost more.
func BenchmarkObserve(b *testing.B) {
	benchmarks := []struct {
		name   string
		keys   uint64
		secret []byte
	}{{"1000 keys", 1000, nil}, {"1000 keys, secret", 1000, []byte("pepper")}, {"new keys", 1 << 62, nil}}

	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			r := evidence.NewRecorder(bb.secret)
			o := observed(evidence.AgreeAllow)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for n := uint64(0); pb.Next(); n++ {
					r.Observe("k", n%bb.keys*0x9e3779b97f4a7c15, noon, o, &evidence.Setting{Cost: 1})
				}
			})
		})
	}
}
