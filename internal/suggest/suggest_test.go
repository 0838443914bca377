package suggest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// traffic writes logs of honest clients and of abusers, whose keys begin with "bad".
type traffic struct {
	*rand.Rand
	Requests
	length time.Duration
}

func newTraffic(seed uint64, length time.Duration) *traffic {
	return &traffic{Rand: rand.New(rand.NewPCG(seed, 48)), length: length}
}

func (g *traffic) send(key string, at time.Duration) {
	if at >= 0 && at < g.length {
		g.Add(1_700_000_000_000_000+at.Microseconds(), []byte(key), 1)
	}
}

// people come in sessions: a page with its pictures, a pause, the next page. Some come much more often than others.
func (g *traffic) people(n int) {
	for i := range n {
		key := fmt.Sprintf("person-%d", i)
		sessions := 1 + int(math.Exp(0.8*g.NormFloat64()))
		for range sessions {
			at := time.Duration(g.Float64() * float64(g.length))
			for range 1 + g.Poisson(4) {
				for range 1 + g.Poisson(3) {
					g.send(key, at+time.Duration(g.IntN(800))*time.Millisecond)
				}
				at += time.Duration(2e9 + g.ExpFloat64()*40e9)
			}
		}
	}
}

// programs ask with a steady pace, each with another, of a heavy tail.
func (g *traffic) programs(n int) {
	for i := range n {
		pause := time.Duration(float64(15*time.Minute)/math.Pow(1-g.Float64(), 0.4)) / 2
		g.every(fmt.Sprintf("program-%d", i), pause, 0, g.length)
	}
}

func (g *traffic) every(key string, pause, from, to time.Duration) {
	for at := from; at < to; at += time.Duration((0.5 + g.Float64()) * float64(pause)) {
		g.send(key, at)
	}
}

func (g *traffic) Poisson(mean float64) (n int) {
	for p := g.Float64(); p > math.Exp(-mean); p *= g.Float64() {
		n++
	}
	return n
}

// abuse are the shapes that a first limit is for.
var abuse = map[string]func(*traffic){
	"a scraper all day":  func(g *traffic) { g.every("bad", 500*time.Millisecond, 0, g.length) },
	"passwords, at once": func(g *traffic) { g.every("bad", 5*time.Millisecond, g.length/2, g.length/2+30*time.Second) },
	"slow, all day":      func(g *traffic) { g.every("bad", 4*time.Second, 0, g.length) },
	"a botnet": func(g *traffic) {
		for i := range 60 {
			g.every(fmt.Sprintf("bad-%d", i), time.Second, g.length/3, g.length/3+40*time.Minute)
		}
	},
	"on and off": func(g *traffic) {
		for i := range 4 {
			for from := time.Duration(0); from < g.length; from += time.Hour {
				g.every(fmt.Sprintf("bad-%d", i), 50*time.Millisecond, from, from+time.Minute)
			}
		}
	},
	"several of different pace": func(g *traffic) {
		for i := range 12 {
			g.every(fmt.Sprintf("bad-%d", i), time.Duration(500<<(i%3))*time.Millisecond, 0, g.length)
		}
	},
	"one beside another": func(g *traffic) {
		g.every("bad-1", 5*time.Millisecond, g.length/2, g.length/2+30*time.Second)
		g.every("bad-2", 2*time.Second, 0, g.length)
		g.every("bad-3", 100*time.Millisecond, 0, g.length/4)
	},
}

// others are who else uses the service.
var others = map[string]func(*traffic){
	"few people":          func(g *traffic) { g.people(600) },
	"people":              func(g *traffic) { g.people(3000) },
	"people and programs": func(g *traffic) { g.people(2000); g.programs(300) },
}

// seeds is how much traffic of a kind is drawn.
func seeds() uint64 {
	if testing.Short() {
		return 1
	}
	return 2
}

// The proposal that comes first stops nearly all of an abuse, and nearly none of the others, whoever else uses the service.
func TestFirstProposalStopsAbuse(t *testing.T) {
	for i, shape := range slices.Sorted(maps.Keys(abuse)) {
		for j, name := range slices.Sorted(maps.Keys(others)) {
			for seed := range seeds() {
				if testing.Short() && i%len(others) != j { // each shape and each of the others
					continue
				}
				g := newTraffic(seed, 24*time.Hour)
				others[name](g)
				abuse[shape](g)
				checkFirst(t, g, fmt.Sprintf("%s, %s, seed %d", shape, name, seed))
			}
		}
	}
}

// checkFirst decides with the limiter itself.
func checkFirst(t *testing.T, g *traffic, name string) {
	t.Helper()
	report, err := Of(context.Background(), &g.Requests, 0.001)
	if err != nil || len(report.Proposals) == 0 {
		t.Fatalf("%s: %v, %v", name, report, err)
	}
	var abusive, stopped, honest, touched, all int64
	for client, denied := range decided(t, &g.Requests, report.Proposals[0].Side()) {
		n := int64(len(client.at))
		all += denied
		if strings.HasPrefix(client.name, "bad") {
			abusive, stopped = abusive+n, stopped+denied
			continue
		}
		honest++
		if denied > 0 {
			touched++
		}
	}
	p := report.Proposals[0]
	line := fmt.Sprintf("%s: %d per %s, burst %d: stops %d of %d, touches %d of %d others; %d set apart",
		name, p.Limit, p.Window, p.Burst, stopped, abusive, touched, honest, report.SetApart)
	if float64(stopped) < 0.95*float64(abusive) || float64(touched) > 0.001*float64(honest) {
		t.Error(line)
	}
	if all != p.TouchedRequests {
		t.Errorf("%s: the limiter denies %d, the proposal says %d", name, all, p.TouchedRequests)
	}
}

// decided is what a limiter denies to each client.
func decided(t *testing.T, requests *Requests, side algorithms.Side) map[*client]int64 {
	t.Helper()
	clients := requests.clients()
	denied := map[*client]int64{}
	pair := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	for i := range clients {
		c := &clients[i]
		denied[c] = 0
		for k, at := range c.at {
			var into [1][2]algorithms.Observation
			check := algorithms.Check{Policy: "p", Key: c.name, Cost: c.costs[k], Sides: [2]algorithms.Side{side, {}}, At: time.UnixMicro(at)}
			if err := pair.Evaluate(t.Context(), []algorithms.Check{check}, into[:]); err != nil || into[0][0].Err != nil {
				t.Fatal(err, into[0][0].Err)
			}
			if !into[0][0].Decision.Allowed {
				denied[c]++
			}
		}
	}
	return denied
}

// Where nobody is far above all others, no proposal touches more of all clients and requests than it may, and what it says of them is
// what its limiter does. A smaller limit or burst would touch more.
func TestProposalsTouchFew(t *testing.T) {
	const touch = 0.005
	for name, of := range others {
		for seed := range seeds() {
			g := newTraffic(seed, 24*time.Hour)
			of(g)
			report, err := Of(t.Context(), &g.Requests, touch)
			if err != nil || len(report.Proposals) != len(windows) || report.SetApart > 0 {
				t.Fatalf("%s, seed %d: %v, %d proposals, %d set apart", name, seed, err, len(report.Proposals), report.SetApart)
			}

			for _, p := range report.Proposals {
				keys, requests := touchedBy(t, g, p.Side())
				if keys != p.TouchedKeys || requests != p.TouchedRequests || keys != p.TouchedOthers {
					t.Errorf("%s, seed %d: %+v: its limiter touches %d keys and %d requests", name, seed, p, keys, requests)
				}
				if float64(keys) > touch*float64(report.Keys) || float64(requests) > touch*float64(report.Requests) {
					t.Errorf("%s, seed %d: %+v touches more of %d keys and %d requests than it may", name, seed, p, report.Keys, report.Requests)
				}

				less := p
				if less.Burst--; less.Burst == 0 {
					continue
				}
				keys, requests = touchedBy(t, g, less.Side())
				if float64(keys) <= touch*float64(report.Keys) && float64(requests) <= touch*float64(report.Requests) {
					t.Errorf("%s, seed %d: %+v: a smaller burst touches only %d keys and %d requests", name, seed, p, keys, requests)
				}
			}
		}
	}
}

func touchedBy(t *testing.T, g *traffic, side algorithms.Side) (keys, requests int64) {
	for _, denied := range decided(t, &g.Requests, side) {
		if denied > 0 {
			keys, requests = keys+1, requests+denied
		}
	}
	return keys, requests
}

// More requests than are kept leave a sample of whole clients, whose proposals are near those of all.
func TestSample(t *testing.T) {
	all, some := newTraffic(1, 24*time.Hour), newTraffic(1, 24*time.Hour)
	some.most = 20000
	all.people(6000)
	some.people(6000)
	if some.halved == 0 || len(some.list) > some.most || some.Len() != all.Len() {
		t.Fatalf("halved %d times, %d of %d requests are kept", some.halved, len(some.list), some.Len())
	}
	whole := map[string]int{}
	for _, c := range all.clients() {
		whole[c.name] = len(c.at)
	}
	for _, c := range some.clients() {
		if len(c.at) != whole[c.name] {
			t.Errorf("%s has %d requests of %d", c.name, len(c.at), whole[c.name])
		}
	}

	exact, err := Of(t.Context(), &all.Requests, 0.01)
	estimated, err2 := Of(t.Context(), &some.Requests, 0.01)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if k := float64(estimated.Keys) / float64(exact.Keys); k < 0.7 || k > 1.4 || estimated.SampledKeys == 1 {
		t.Errorf("%d keys are estimated of %d", estimated.Keys, exact.Keys)
	}
	for i, p := range estimated.ByWindow() {
		if e := exact.ByWindow()[i]; float64(p.Limit) > 2*float64(e.Limit) || float64(p.Limit) < 0.5*float64(e.Limit) {
			t.Errorf("a sample proposes %d per %s, all clients %d", p.Limit, p.Window, e.Limit)
		}
	}
}

// A line of another order, another cost, a client of one request and a log of none are no trouble.
func TestOddLogs(t *testing.T) {
	if r, err := Of(t.Context(), &Requests{}, 0.001); err != nil || len(r.Proposals) != 0 {
		t.Errorf("no request: %v, %v", r, err)
	}

	const second = 1_000_000
	r := &Requests{}
	r.Add(20*second, []byte("a"), 3)
	r.Add(0, []byte("a"), 2)
	r.Add(5*second, []byte("look"), 0)
	r.Add(5*second, []byte("b"), math.MaxInt64)
	report, err := Of(t.Context(), r, 1)
	if err != nil || report.Keys != 2 || report.Requests != 4 || len(report.Proposals) != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	if first := report.ByWindow()[0]; first.Limit != 3 || first.Burst != 3 || first.TouchedKeys != 1 {
		t.Errorf("%+v", first)
	}
}

// A million requests are a second or two of work, most of which is the reading of their lines elsewhere.
func BenchmarkOf(b *testing.B) {
	g := newTraffic(1, 24*time.Hour)
	for i := 0; g.Len() < 1_000_000; i++ {
		g.every(fmt.Sprint(i), time.Minute+time.Duration(i)*time.Second, 0, g.length)
	}
	for b.Loop() {
		if _, err := Of(b.Context(), &g.Requests, 0.001); err != nil {
			b.Fatal(err)
		}
	}
}
