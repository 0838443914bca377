package divergence

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// request is one request of a client, in milliseconds of the hour.
type request struct {
	hash   uint64
	ms     uint32
	denied bool
}

// reactionsTo is the oracle: what the glossary says of all requests of an hour, in the order of their instants.
func reactionsTo(requests []request) map[uint64]Reaction {
	slices.SortStableFunc(requests, func(a, b request) int { return cmp.Compare(a.ms, b.ms) })
	all, retries := map[uint64]Reaction{}, map[uint64]int64{}
	deniedIn := map[[2]uint64]bool{}
	for _, r := range requests {
		one := all[r.hash]
		one.Hash, one.Last = r.hash, r.ms
		if r.denied {
			one.Denials++
			one.LastDenied = r.ms
			minute := uint64(r.ms / 60_000)
			one.Minutes |= 1 << minute
			if deniedIn[[2]uint64{r.hash, minute}] {
				retries[r.hash]++
			}
			deniedIn[[2]uint64{r.hash, minute}] = true
		}
		all[r.hash] = one
	}

	// The two numbers that people see, by their definitions.
	for hash, one := range all {
		i := slices.IndexFunc(requests, func(r request) bool { return r.hash == hash && r.denied && r.ms == one.LastDenied })
		back := slices.ContainsFunc(requests[max(i, 0):], func(r request) bool { return r.hash == hash && r.ms > one.LastDenied })
		if one.Retries() != retries[hash] || one.Silent() != (i >= 0 && !back) {
			panic("a reaction does not say what the glossary says")
		}
	}
	return all
}

// What any number of observers see, in any order, written in pieces and joined in any order, is what one list of all requests
// says of the clients of least hash.
func TestReactionsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 1<<48-1), 1, 20, rapid.ID).Draw(t, "keys")
		tables := make([]reactionTable, rapid.IntRange(1, 4).Draw(t, "observers"))
		const keep = 8
		var all []request
		var pieces []Reactions
		for range rapid.IntRange(0, 100).Draw(t, "requests") {
			r := request{
				rapid.SampledFrom(keys).Draw(t, "key"), rapid.Uint32Range(0, 3_599_999).Draw(t, "ms"), rapid.Bool().Draw(t, "denied"),
			}
			all = append(all, r)
			o := &tables[rapid.IntRange(0, len(tables)-1).Draw(t, "observer")]
			o.watch(hashAt(r.hash), time.Duration(r.ms)*time.Millisecond, r.denied, &sampling{keep: keep})
			if rapid.IntRange(0, 20).Draw(t, "writes") == 0 {
				pieces = append(pieces, o.take())
			}
		}
		for i := range tables {
			pieces = append(pieces, tables[i].take())
		}

		var joined Reactions
		for _, i := range rapid.Permutation(indexes(len(pieces))).Draw(t, "order") {
			piece, err := packReactions(&pieces[i]).unpack()
			if err != nil {
				t.Fatal(err)
			}
			joined.Join(&piece)
		}
		checkReactions(t, joined, reactionsTo(all), keep)
	})
}

func indexes(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// checkReactions asks for all clients below the bound, and for at least as many as a table keeps.
func checkReactions(t *rapid.T, got Reactions, want map[uint64]Reaction, keep int) {
	var list []Reaction
	for _, hash := range slices.Sorted(maps.Keys(want)) {
		if got.Below == 0 || hash < got.Below {
			list = append(list, want[hash])
		}
	}
	if !slices.Equal(got.List, list) || len(list) < min(keep, len(want)) {
		t.Fatalf("below %d:\n%+v, want\n%+v", got.Below, got.List, list)
	}
}

// Other programs can write to the ledger.
func TestPackedReactionsAreChecked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got, err := packedReactions(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")).unpack()
		if err != nil {
			return
		}
		before := uint64(0)
		for _, one := range got.List {
			if one.Hash <= before || one.Denials < 0 || one.LastDenied > one.Last || one.Last >= SecondsPerHour*1000 || one.Minutes>>60 != 0 {
				t.Fatalf("impossible: %+v", got)
			}
			before = one.Hash
		}
	})
}

// A recorder watches every charge of a client under a holdback, with a comparison or without, and no other.
func TestRecorderWatchesAHoldback(t *testing.T) {
	allows := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}
	denies, failed := algorithms.Observation{Status: algorithms.Judged}, algorithms.Observation{Status: algorithms.Failed}
	at := time.Unix(100*SecondsPerHour+61, 0)
	tests := map[string]struct {
		o       [2]algorithms.Observation
		setting Setting
		want    [cohorts]int // denials by group; -1: no client
	}{
		"no holdback":          {[2]algorithms.Observation{denies, denies}, Setting{Cost: 1}, [cohorts]int{-1, -1}},
		"a peek":               {[2]algorithms.Observation{denies, denies}, Setting{Cohort: CohortOthers}, [cohorts]int{-1, -1}},
		"held back and denied": {[2]algorithms.Observation{denies, allows}, Setting{Cost: 1, Cohort: CohortHeldBack}, [cohorts]int{1, -1}},
		"held back":            {[2]algorithms.Observation{allows, denies}, Setting{Cost: 1, Cohort: CohortHeldBack}, [cohorts]int{0, -1}},
		"others": {[2]algorithms.Observation{allows, denies},
			Setting{Cost: 1, Cohort: CohortOthers, Enforced: algorithms.Candidate}, [cohorts]int{-1, 1}},
		"not comparable": {[2]algorithms.Observation{failed, denies},
			Setting{Cost: 1, Cohort: CohortOthers, Enforced: algorithms.Candidate}, [cohorts]int{-1, 1}},
		"not answered": {[2]algorithms.Observation{allows, failed},
			Setting{Cost: 1, Cohort: CohortOthers, Enforced: algorithms.Candidate}, [cohorts]int{-1, 0}},
	}

	for name, test := range tests {
		r := NewRecorder(nil)
		r.Observe("key", Hash("test", "p", "key"), at, &test.o, &test.setting)
		h := r.Brief(at).Record.Open[0]
		for i, g := range Cohorts {
			got := -1
			if list := h.Of(g).List; len(list) > 0 {
				got = int(list[0].Denials)
				if list[0].Last != 61_000 || got > 0 && list[0].Minutes != 2 {
					t.Errorf("%s: %+v, want the second minute", name, list[0])
				}
			}
			if got != test.want[i] {
				t.Errorf("%s: %s has %d denials, want %d", name, g, got, test.want[i])
			}
		}
	}
}

// A request costs no memory but for new clients, and the lists are bounded.
func TestReactionsAreBounded(t *testing.T) {
	r := NewRecorder(nil)
	at := time.Unix(100*SecondsPerHour, 0)
	o := [2]algorithms.Observation{{Status: algorithms.Judged}, {Status: algorithms.Judged}}
	for i := range uint64(40_000) {
		r.Observe("key", i*0x9e3779b97f4a7c15, at, &o, &Setting{Cost: 1, Cohort: CohortOthers})
	}
	if n := testing.AllocsPerRun(100, func() { r.Observe("key", 1, at, &o, &Setting{Cost: 1, Cohort: CohortOthers}) }); n != 0 {
		t.Errorf("%v allocations of a known client", n)
	}

	h := r.Brief(at).Record.Open[0]
	others := h.Of(CohortOthers)
	if len(others.List) != ReactingClients || others.Below == 0 || len(h.Of(CohortHeldBack).List) != 0 {
		t.Errorf("%d clients, bound %d, want %d and a bound", len(others.List), others.Below, ReactingClients)
	}
	if n := len(packReactions(others)); n > 27*ReactingClients {
		t.Errorf("packed they take %d bytes", n)
	}

	// An entry of an earlier release has no reactions.
	p := packed(&h)
	p.HeldBack, p.Others = nil, nil
	old, err := p.unpack(h.Unix)
	if err != nil || !reflect.DeepEqual(old.Reactions, [cohorts]Reactions{}) {
		t.Errorf("%+v, %v, want none", old.Reactions, err)
	}
}
