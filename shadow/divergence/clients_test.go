package divergence

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// exactly is the oracle: every key with its counts.
type exactly map[uint64]*Client

func (e exactly) count(hash uint64, enforced algorithms.Role, allowed, given bool) {
	if e[hash] == nil {
		e[hash] = &Client{Hash: hash}
	}
	c := &e[hash].Counts[enforced]
	c.Requests++
	if allowed {
		c.Allowed++
	}
	if allowed && !given {
		c.Lost++
	}
	if given && !allowed {
		c.Gained++
	}
}

// least returns the k keys of least hash, without names, and the bound.
func (e exactly) least(k int) (c Clients) {
	hashes := slices.Sorted(maps.Keys(e))
	if len(hashes) > k {
		c.Below = hashes[k]
		hashes = hashes[:k]
	}
	for _, hash := range hashes {
		c.List = append(c.List, *e[hash])
	}
	return c
}

// withoutNames returns the counts alone: which clients have a name depends on the order of joins.
func withoutNames(c Clients) Clients {
	c.List = slices.Clone(c.List)
	for i := range c.List {
		c.List[i].Name, c.List[i].Causes = "", nil
	}
	return c
}

// observer is a stripe of an instance: it counts an hour, and writes lists now and then.
type observer struct {
	clientTable
}

// stepOf is one request.
func stepOf(allowed, given bool) *clientStep {
	switch {
	case allowed && given:
		return &clientSteps[AgreeAllow]
	case allowed:
		return &clientSteps[NewlyDenied]
	case given:
		return &clientSteps[NewlyAllowed]
	}
	return &clientSteps[AgreeDeny]
}

// hashAt returns the hash of a key that has a place, without a secret.
func hashAt(place uint64) uint64 { return hashMixedTo(place << 16) }

// hashMixedTo returns the hash that mix turns into a number.
func hashMixedTo(x uint64) uint64 {
	x ^= x>>31 ^ x>>62
	x *= 0x319642b2d24d8ec3
	x ^= x>>27 ^ x>>54
	x *= 0x96de1b173f119089
	return x ^ x>>30 ^ x>>60
}

// What any number of observers count, written in pieces and joined in any order, is what one map of all keys has for the k keys of
// least hash, of one hour and of several.
func TestClientsAreCountedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 12).Draw(t, "kept")
		hours := rapid.IntRange(1, 3).Draw(t, "hours")
		keys := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 1<<48-1), 1, 60, rapid.ID).Draw(t, "keys")

		var all Clients
		total := exactly{}
		for range hours {
			hour := exactly{}
			lists := observeAll(t, k, keys, hour, total)
			joined := joinAll(t, k, lists)
			if got, want := withoutNames(joined), hour.least(k); got.Below != want.Below || !slices.Equal(got.List, want.List) {
				t.Fatalf("an hour has\n%+v, want\n%+v", got, want)
			}
			all.Join(&joined, k)
		}

		// Hours lower their bounds each for itself, so the joined one may lie below the k least of all.
		got, want := withoutNames(all), total.least(k)
		if !slices.Equal(got.List, want.List) || got.Below != want.Below {
			t.Fatalf("all hours have\n%+v, want\n%+v", got, want)
		}
	})
}

// observeAll lets some observers count an hour, and returns all that they have written.
func observeAll(t *rapid.T, k int, keys []uint64, oracles ...exactly) (lists []Clients) {
	observers := make([]observer, rapid.IntRange(1, 4).Draw(t, "observers"))
	for range rapid.IntRange(0, 200).Draw(t, "requests") {
		o := &observers[rapid.IntRange(0, len(observers)-1).Draw(t, "observer")]
		hash := rapid.SampledFrom(keys).Draw(t, "key")
		enforced := algorithms.Role(rapid.IntRange(0, 1).Draw(t, "enforced"))
		allowed := rapid.Bool().Draw(t, "allowed")
		given := rapid.Bool().Draw(t, "given")

		// At least 4 of a quarter more: with fewer a table would have to leave out hashes at every insertion.
		o.count(&sampling{keep: max(4, k)}, hashAt(hash), fmt.Sprint(hash), enforced, stepOf(allowed, given), noCause)
		for _, oracle := range oracles {
			oracle.count(hash, enforced, allowed, given)
		}
		if rapid.IntRange(0, 20).Draw(t, "writes") == 0 {
			lists = append(lists, o.take())
		}
	}
	for i := range observers {
		lists = append(lists, observers[i].take())
	}
	return lists
}

// joinAll joins lists two by two in any order, through the form in which they are stored.
func joinAll(t *rapid.T, k int, lists []Clients) Clients {
	for len(lists) > 1 {
		i := rapid.IntRange(0, len(lists)-2).Draw(t, "left")
		j := rapid.IntRange(i+1, len(lists)-1).Draw(t, "right")
		right, err := packClients(&lists[j]).unpack()
		if err != nil {
			t.Fatal(err)
		}
		before := withoutNames(lists[i])
		shared := lists[i]
		lists[i].Join(&right, k)
		if !reflect.DeepEqual(withoutNames(shared), before) {
			t.Fatal("a join has changed a list that others may have")
		}
		lists = slices.Delete(lists, j, j+1)
	}
	var joined Clients
	joined.Join(&lists[0], k)
	return joined
}

// A fleet of 20 recorders, each with its stripes, joins to the exact counts of the 4,096 least of 30,000 keys. A client whose
// requests are spread over all instances is one client.
func TestFleetsSampleIsExact(t *testing.T) {
	noon, oracle, fleet := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), exactly{}, Hour{}
	recorders := make([]*Recorder, 20)
	for i := range recorders {
		recorders[i] = NewRecorder(nil)
	}
	allow, deny := algorithms.Observation{Decision: algorithms.Decision{Allowed: true}}, algorithms.Observation{}
	random := rand.New(rand.NewPCG(1, 2))

	for range 200_000 {
		key, lost := uint64(random.ExpFloat64()*5000), random.IntN(10) == 0
		hash := Hash("test", "p", fmt.Sprint(key))
		o := [2]algorithms.Observation{allow, allow}
		if lost {
			o[algorithms.Candidate] = deny
		}
		r := recorders[random.IntN(len(recorders))]
		r.Observe(fmt.Sprint(key), hash, noon, &o, &Setting{Cost: 1})
		oracle.count(r.sample.clients.of(hash), algorithms.Authoritative, true, !lost)
	}

	for _, r := range recorders {
		fleet.join(&r.Snapshot(noon).Record.Open[0])
	}
	if got, want := withoutNames(fleet.Clients), oracle.least(SampledClients); got.Below != want.Below || !slices.Equal(got.List, want.List) {
		t.Errorf("the fleet has %d clients below %x of %d, want %d below %x with equal counts",
			len(got.List), got.Below, len(oracle), len(want.List), want.Below)
	}
}

// Ten million keys of one request take the memory of a few thousand, and the clients of the sample keep exact counts.
func TestSampleIsBounded(t *testing.T) {
	var table clientTable
	by, steady := &sampling{keep: 1024}, hashAt(1)
	for n := range uint64(10_000_000) {
		table.count(by, n*0x9e3779b97f4a7c15+8, "k", algorithms.Authoritative, stepOf(true, true), noCause)
		if n%1000 == 0 {
			table.count(by, steady, "steady", algorithms.Authoritative, stepOf(true, n%2000 != 0), BurstShape)
		}
	}

	if len(table.slots) > 2048 {
		t.Errorf("%d slots, want at most 2048", len(table.slots))
	}
	c := table.take()
	if got := c.Find(1); got == nil || got.Total() != (ClientCount{10_000, 10_000, 5_000, 0}) || got.Name != "steady" {
		t.Errorf("the steady client has %+v, want 10,000 requests and half of them lost", got)
	}
	if n := len(packClients(&c)); n > 13*1024 {
		t.Errorf("%d clients take %d bytes, want at most 13 each", len(c.List), n)
	}
}

// Two keys of one place are one client, as in a list of another instance.
func TestKeysOfOnePlaceAreOneClient(t *testing.T) {
	var table clientTable
	by := &sampling{keep: 1024}
	for _, x := range []uint64{7 << 16, 7<<16 | 1, 8 << 16} {
		table.count(by, hashMixedTo(x), "", algorithms.Authoritative, stepOf(true, false), BurstShape)
	}

	want := Clients{List: []Client{
		{Hash: 7, Counts: [2]ClientCount{{2, 2, 2, 0}}, Causes: &ClientCauses{BurstShape: 2}},
		{Hash: 8, Counts: [2]ClientCount{{1, 1, 1, 0}}, Causes: &ClientCauses{BurstShape: 1}},
	}}
	if got := table.take(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Other programs can write to the ledger: no text makes unpack fail otherwise than by an error, and none yields counts that are
// unordered or impossible.
func TestPackedClientsAreChecked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := packedClients(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")).unpack()
		if err != nil {
			return
		}
		before := uint64(0)
		for _, one := range c.List {
			if one.Hash <= before || c.Below != 0 && one.Hash >= c.Below {
				t.Fatalf("unordered: %+v", c)
			}
			before = one.Hash
			for _, n := range one.Counts {
				if n.Lost < 0 || n.Lost > n.Allowed || n.Gained < 0 || n.Gained > n.Requests-n.Allowed ||
					n.Allowed > n.Requests || n.Requests > mostCounted {
					t.Fatalf("impossible: %+v", one)
				}
			}
		}
	})
}

// Those that lose most have names in a list, however many others have one.
func TestNamesAreBounded(t *testing.T) {
	var c Clients
	for i := range uint64(100) {
		c.Join(&Clients{List: []Client{{Hash: i + 1, Name: "n", Counts: [2]ClientCount{{1000, 1000, int64(i), 0}}}}}, 1000)
	}

	for i, one := range c.List {
		if want := i >= 100-namedClients; (one.Name != "") != want {
			t.Errorf("the client that loses %d has the name %q", i, one.Name)
		}
	}
}

// With a secret neither names nor places of keys in clear leave a recorder, and instances with the same secret agree.
func TestClientsAreMasked(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clientOf := func(secret string) Client {
		r := NewRecorder([]byte(secret))
		o := [2]algorithms.Observation{{Decision: algorithms.Decision{Allowed: true}}, {}}
		r.Observe("alice", Hash("test", "p", "alice"), noon, &o, &Setting{Cost: 1, Protected: true})
		h := r.Snapshot(noon).Record.Open[0]
		h.Clients.List[0].Causes = nil // those of protected keys are not counted
		if !reflect.DeepEqual(h.Clients, h.Protected) {
			t.Errorf("sampled %+v, protected %+v, want the same", h.Clients, h.Protected)
		}
		return h.Clients.List[0]
	}

	clear, masked, again, other := clientOf(""), clientOf("s1"), clientOf("s1"), clientOf("s2")
	if clear.Name != "alice" || masked.Name == "alice" || masked != again {
		t.Errorf("clear %+v, masked %+v and %+v", clear, masked, again)
	}
	if masked.Hash == clear.Hash || masked.Hash == other.Hash {
		t.Errorf("the places %x, %x and %x, want three", clear.Hash, masked.Hash, other.Hash)
	}
}

// A protected key loses declared differences, and gains them, too. Failed and blind comparisons do not count, nor do the
// denials of an enforced candidate that has just started.
func TestWhatClientsLose(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	allow, deny := algorithms.Observation{Decision: algorithms.Decision{Allowed: true}}, algorithms.Observation{}
	failed := algorithms.Observation{Status: algorithms.Failed}
	declared := Setting{Expected: algorithms.Expected{NewlyDenied: true, NewlyAllowed: true}}
	warming := Setting{Warming: true, Enforced: algorithms.Candidate}
	tests := map[string]struct {
		o                  [2]algorithms.Observation
		setting            Setting
		clients, protected ClientCount
	}{
		"allowed by both":    {[2]algorithms.Observation{allow, allow}, Setting{}, ClientCount{1, 1, 0, 0}, ClientCount{1, 1, 0, 0}},
		"denied by both":     {[2]algorithms.Observation{deny, deny}, Setting{}, ClientCount{1, 0, 0, 0}, ClientCount{1, 0, 0, 0}},
		"newly denied":       {[2]algorithms.Observation{allow, deny}, Setting{}, ClientCount{1, 1, 1, 0}, ClientCount{1, 1, 1, 0}},
		"newly allowed":      {[2]algorithms.Observation{deny, allow}, Setting{}, ClientCount{1, 0, 0, 1}, ClientCount{1, 0, 0, 1}},
		"declared, allowed":  {[2]algorithms.Observation{deny, allow}, declared, ClientCount{1, 0, 0, 0}, ClientCount{1, 0, 0, 1}},
		"declared":           {[2]algorithms.Observation{allow, deny}, declared, ClientCount{1, 1, 0, 0}, ClientCount{1, 1, 1, 0}},
		"failed":             {[2]algorithms.Observation{allow, failed}, Setting{}, ClientCount{}, ClientCount{}},
		"blind":              {[2]algorithms.Observation{allow, deny}, Setting{Blind: true}, ClientCount{}, ClientCount{}},
		"warming":            {[2]algorithms.Observation{allow, deny}, warming, ClientCount{}, ClientCount{}},
		"warming, in shadow": {[2]algorithms.Observation{allow, deny}, Setting{Warming: true}, ClientCount{1, 1, 1, 0}, ClientCount{1, 1, 1, 0}},
	}

	for name, test := range tests {
		r := NewRecorder(nil)
		test.setting.Cost, test.setting.Protected = 1, true
		r.Observe("k", 7, noon, &test.o, &test.setting)
		h := r.Snapshot(noon).Record.Open[0]
		if got := sumOf(h.Clients); got != test.clients {
			t.Errorf("%s: the client has %+v, want %+v", name, got, test.clients)
		}
		if got := sumOf(h.Protected); got != test.protected {
			t.Errorf("%s: the protected key has %+v, want %+v", name, got, test.protected)
		}
	}
}

func sumOf(c Clients) (sum ClientCount) {
	for i := range c.List {
		sum.Add(c.List[i].Total())
	}
	return sum
}
