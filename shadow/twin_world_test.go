package shadow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// twinPlace is where a side keeps its state.
type twinPlace int

const (
	inFirst        twinPlace = iota // the service's own store, which may fail
	inSecond                        // another store, which may fail
	inMemory                        // of the process
	customInMemory                  // a limiter of the user's in the process
	customApart                     // a limiter of the user's with a server of its own
	inSynchronized                  // of the process, which exchanges it with others: see exchangeBehind
)

// twinSetting is two limiters and their fleet.
type twinSetting struct {
	algorithm algorithms.Algorithm
	other     algorithms.Algorithm // of the candidate; nil for twins
	limits    [2]algorithms.Limit  // equal for twins
	places    [2]twinPlace         // by role
	instances int
	stage     stages.Step // the zero Step: shadow
	// unlike is the limit that a custom limiter goes by, whatever the file says; the zero Limit: the file's.
	unlike algorithms.Limit
	// adapts has the sides that are no custom ones give way while the service suffers, by one rule.
	adapts bool
}

// twinWorld is a fleet of processes that compare two limiters, and the servers that these
// keep their state in. It runs in a bubble of synctest.
type twinWorld struct {
	twinSetting
	servers []*twinServer
	states  *stages.MemoryStore
	ledger  *evidence.MemoryLedger

	mu          sync.Mutex
	instances   []*twinInstance
	all         []*twinInstance // with those that have gone
	comparisons []Comparison    // of the twins
	admissions  map[string][]twinAdmission
	lost        []time.Time // when a store may have lost what it had counted
	away        []time.Time // when a store may have begun to fail
	deployed    []time.Time // when another fingerprint came beside an exposed candidate
	exposed     bool        // a candidate has been enforced
	rested      time.Time   // when every disturbance had ended
	violations  []string

	began    time.Time
	asked    int            // requests
	requests twinGroup      // under way
	ends     sync.WaitGroup // of disturbances
}

// twinAdmission is a request that a client was allowed.
type twinAdmission struct {
	asked, answered time.Time
	cost            int64
}

// twinInstance is one process of the fleet.
type twinInstance struct {
	*Pair
	world   *twinWorld
	name    string
	process *twinProcess
	links   []*twinLink
	custom  Limiter            // the custom side, if there is one
	memory  *algorithms.Memory // of a synchronized store
	twins   bool               // what it compares is the twins
	counted twinCounts
}

const twinPolicy = "p"

// twinGroup waits as a sync.WaitGroup does, and takes requests while it waits.
type twinGroup struct {
	mu    sync.Mutex
	n     int
	ended sync.Cond
}

func (g *twinGroup) Go(do func()) {
	g.add(1)
	go func() {
		defer g.add(-1)
		do()
	}()
}

func (g *twinGroup) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n += n; g.n == 0 {
		g.ended.Broadcast()
	}
}

// Wait waits until there is no request under way.
func (g *twinGroup) Wait() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.n > 0 {
		g.ended.Wait()
	}
}

func newTwinWorld(s twinSetting) *twinWorld {
	w := &twinWorld{
		twinSetting: s, states: stages.NewMemoryStore(), ledger: evidence.NewMemoryLedger(),
		admissions: map[string][]twinAdmission{},
	}
	w.requests.ended.L, w.began = &w.requests.mu, time.Now()
	if s.remote() {
		w.servers = []*twinServer{newTwinServer(), newTwinServer()}
	}
	for range s.instances {
		w.launch(twinRelease{})
	}
	return w
}

func (s *twinSetting) has(p twinPlace) bool { return s.places[0] == p || s.places[1] == p }

// sharesRecord reports whether one step checks both sides.
func (s *twinSetting) sharesRecord() bool { return s.places[0] == s.places[1] }

// remote reports whether a side may fail.
func (s *twinSetting) remote() bool { return s.has(inFirst) || s.has(inSecond) || s.has(customApart) }

// custom reports whether a side is a limiter of the user's.
func (s *twinSetting) custom() bool { return s.has(customInMemory) || s.has(customApart) }

// twinRelease is what is deployed. The zero value is the twins.
type twinRelease struct {
	fingerprint string
	halved      bool // the candidate has half of the limit
	plain       bool // there is no candidate
}

// launch starts a process.
func (w *twinWorld) launch(r twinRelease) *twinInstance {
	in := &twinInstance{
		world: w, name: fmt.Sprint("i", len(w.all)), process: &twinProcess{}, twins: r == twinRelease{},
	}
	log := slog.New(slog.DiscardHandler)
	stores := in.connect(log)
	in.custom = in.newCustom()

	cfg := instanceConfig{name: "twins", id: in.name, observer: in.observe, log: log}
	i := assemble(cfg, engine.NewOn("twins", stores, nil), shared{store: w.states, ledger: w.ledger})
	in.Pair = &Pair{instance: i}
	p := in.migrationOf(r, stores, nil)
	in.Pair.policy = p
	i.use(&engine.Plan{Policies: []*engine.Policy{p}})
	_ = i.start(context.Background()) // it is the first start

	w.mu.Lock()
	defer w.mu.Unlock()
	w.instances = append(w.instances, in)
	w.all = append(w.all, in)
	return in
}

// connect makes the stores of a process.
func (in *twinInstance) connect(log *slog.Logger) []*engine.Store {
	for i, server := range in.world.servers {
		rng := rand.New(rand.NewPCG(uint64(len(in.world.all)), uint64(i)))
		in.links = append(in.links, &twinLink{twinServer: server, process: in.process, rng: rng})
	}
	if in.world.has(inSynchronized) {
		in.memory = algorithms.NewMemory(algorithms.MemoryConfig{Synchronized: true})
		return []*engine.Store{engine.NewSynchronizedStore("", in.memory, nil, log)}
	}
	if !in.world.has(inFirst) && !in.world.has(inSecond) {
		return []*engine.Store{engine.NewMemoryStore()}
	}

	var stores []*engine.Store
	for i, name := range []string{"", "second"} {
		stores = append(stores, engine.NewRemoteStore(name, in.links[i], in.links[i].raise, log))
	}
	if in.world.has(inMemory) {
		stores = append(stores, engine.NewMemoryStore())
	}
	return stores
}

// migrationOf makes the policy of a release, and the check of a request.
func (in *twinInstance) migrationOf(r twinRelease, stores []*engine.Store, before *engine.Policy) *engine.Policy {
	limits := in.world.limits
	if r.halved {
		limits[1].Requests /= 2
		limits[1].Burst /= 2
	}

	var sides [2]engine.Side
	check := algorithms.Check{Policy: twinPolicy}
	for role, place := range in.world.places {
		s := algorithms.Side{ID: "side " + algorithms.Role(role).String(), Algorithm: in.world.algorithm}
		if role == int(algorithms.Candidate) && in.world.other != nil {
			s.Algorithm = in.world.other
		}
		switch place {
		case inFirst, inMemory, inSynchronized:
			sides[role] = engine.AlgorithmSide(s, stores[0])
			if place == inMemory {
				sides[role] = engine.AlgorithmSide(s, stores[len(stores)-1])
			}
		case inSecond:
			sides[role] = engine.AlgorithmSide(s, stores[1])
		case customInMemory, customApart:
			sides[role] = engine.CustomSide(in.custom)
		}
		check.Sides[role] = algorithms.Side{Limit: limits[role]}
		if place != customInMemory && place != customApart {
			s.Limit = limits[role]
			check.Sides[role] = s
			if in.world.adapts {
				sides[role].Adapt(in.world.adaptiveSide(s))
			}
		}
	}
	if r.plain {
		sides[1], check.Sides[1] = engine.Side{}, algorithms.Side{}
	}

	config := stages.Config{Automatic: true}
	spec := stages.Spec{Policy: twinPolicy, Fingerprint: "twins" + r.fingerprint, Config: config.WithDefaults()}
	for role := range sides {
		sides[role].Window = limits[role].Window
		spec.Window = max(spec.Window, engine.MemoryOf(in.world.algorithm, limits[role]))
	}
	o := in.options()
	o.Before = before
	p := engine.NewPolicy(spec, sides, o)
	in.Pair.check = check
	return p
}

// newCustom returns a limiter of the user's, with a client of its own that gives up when its
// context is over.
func (in *twinInstance) newCustom() Limiter {
	var pair algorithms.Pair = algorithms.NewMemory(algorithms.MemoryConfig{})
	if in.world.has(customApart) {
		pair = in.links[1]
	}

	return LimiterFunc(func(ctx context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error) {
		if err := ctx.Err(); err != nil {
			return algorithms.Decision{}, err
		}

		if in.world.unlike.Window > 0 {
			limit = in.world.unlike
		}
		own := algorithms.Side{Algorithm: in.world.algorithm, Limit: limit}
		c := algorithms.Check{Policy: "custom", Key: key, Cost: cost, Sides: [2]algorithms.Side{own}}
		var into [1]engine.Observations
		err := pair.Evaluate(ctx, []algorithms.Check{c}, into[:])
		return into[0][0].Decision, errors.Join(err, into[0][0].Err)
	})
}

// observe is the observer of a process.
func (in *twinInstance) observe(c Comparison) {
	if !in.twins || in.process.gone() {
		return
	}
	in.counted.add(&c)
	in.world.mu.Lock()
	defer in.world.mu.Unlock()
	in.world.comparisons = append(in.world.comparisons, c)
}

// someInstance returns one of the processes that run, as soon as there is one.
func (w *twinWorld) someInstance(n int) *twinInstance {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.instances) == 0 {
		w.mu.Unlock()
		time.Sleep(time.Millisecond)
		w.mu.Lock()
	}
	return w.instances[n%len(w.instances)]
}

// ask sends a request that is answered later.
func (w *twinWorld) ask(ctx context.Context, in *twinInstance, key string, cost int64) {
	w.mu.Lock()
	w.asked++
	apart := time.Duration(w.asked) * time.Nanosecond
	w.mu.Unlock()

	w.requests.Go(func() {
		time.Sleep(apart)
		in.process.running()
		if in.process.gone() {
			return
		}

		asked := time.Now()
		in.counted.asked.Add(1)
		d := in.Allow(ctx, key, cost)
		switch left := ctx.Err() == context.Canceled; {
		case left && w.custom():
			in.counted.left.Add(1)
			in.observe(Comparison{Key: key, At: asked, Outcome: Inconclusive}) // it is not recorded
		case !left && !in.process.gone() && d.Allowed && cost > 0:
			w.admit(in, key, twinAdmission{asked, time.Now(), cost})
		}
	})
}

// admit notes that a client was allowed. Each process has a budget of its own where the state
// is its own.
func (w *twinWorld) admit(in *twinInstance, key string, a twinAdmission) {
	if !w.remote() {
		key += "@" + in.name
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.admissions[key] = append(w.admissions[key], a)
}

// remove takes a process off the list of those that run.
func (w *twinWorld) remove(in *twinInstance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.instances {
		if w.instances[i] == in {
			w.instances = append(w.instances[:i], w.instances[i+1:]...)
			return
		}
	}
}

// crash ends a process with all that it had in its queues.
func (w *twinWorld) crash(in *twinInstance) {
	w.remove(in)
	in.process.mu.Lock()
	in.process.crashed = true
	in.process.mu.Unlock()
	in.fleet.Kill()
}

// leave ends a process as a deployment does.
func (w *twinWorld) leave(in *twinInstance) {
	w.remove(in)
	if err := in.Close(context.Background()); err != nil && !errors.Is(err, engine.ErrAsync) {
		w.violate("a process cannot be closed: %v", err)
	}
}

func (w *twinWorld) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// end ends all processes, so that no goroutine is left in the bubble.
func (w *twinWorld) end() {
	for _, in := range w.all {
		if in.process.gone() {
			_ = in.engine.Close(context.Background())
			in.fleet.Kill()()
			continue
		}
		_ = in.Close(context.Background())
	}
	time.Sleep(time.Second) // servers finish the commands of clients that have gone
}
