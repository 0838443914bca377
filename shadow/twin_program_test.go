package shadow

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"pgregory.net/rapid"
)

// twinStep is one step of a program: traffic, or a disturbance that begins now. Which server
// or process, how many and for how long depends on what it does.
type twinStep struct {
	do   string
	on   int
	n    int
	span time.Duration
}

func (s twinStep) String() string {
	return fmt.Sprintf("{%q, %d, %d, %d * time.Millisecond}", s.do, s.on, s.n, s.span.Milliseconds())
}

// twinWindow is the shortest window of the random programs.
const twinWindow = 4 * time.Second

// twinKeys are the keys of all requests.
var twinKeys = []string{"ann", "bob", "eve"}

// twinSteps are all that can happen.
var twinSteps = map[string]func(*twinWorld, twinStep){
	// Traffic.
	"requests": func(w *twinWorld, s twinStep) { w.traffic(context.Background(), s, 1) },
	"costs":    func(w *twinWorld, s twinStep) { w.traffic(context.Background(), s, 2) },
	"peeks":    func(w *twinWorld, s twinStep) { w.traffic(context.Background(), s, 0) },
	"saturate": func(w *twinWorld, s twinStep) { w.saturate(twinKeys[s.on], 4) },
	"wait":     func(_ *twinWorld, s twinStep) { time.Sleep(s.span) },
	"crowd": func(w *twinWorld, s twinStep) {
		for i := range 40 * s.n {
			w.ask(context.Background(), w.someInstance(s.on), twinKeys[i%2], 1)
		}
	},

	// Clients.
	"clients leave": func(w *twinWorld, s twinStep) {
		gone, leave := context.WithCancel(context.Background())
		leave()
		w.traffic(gone, s, 1)
	},
	"clients leave early": func(w *twinWorld, s twinStep) {
		for i := range s.n {
			ctx, leave := context.WithTimeout(context.Background(), time.Second)
			w.ask(ctx, w.someInstance(i), twinKeys[s.on], 1)
			time.Sleep(twinLeast + time.Duration(271*i)*time.Microsecond%twinSpread)
			leave()
			time.Sleep(s.span / 20)
		}
	},
	"short deadlines": func(w *twinWorld, s twinStep) {
		w.without()
		for i := range s.n {
			ctx, cancel := context.WithTimeout(context.Background(), 2*(twinLeast+time.Duration(271*i)*time.Microsecond%twinSpread))
			w.ask(ctx, w.someInstance(i), twinKeys[s.on], 1)
			time.Sleep(s.span / 20)
			cancel()
		}
	},

	// Servers.
	"hold":       func(w *twinWorld, s twinStep) { w.hold(s, false) },
	"lossy hold": func(w *twinWorld, s twinStep) { w.hold(s, true) },
	"kill": func(w *twinWorld, s twinStep) {
		w.down(s.on, s.span, func(server *twinServer) { server.dead, server.life = true, server.life+1 },
			func(server *twinServer) { server.dead = false })
	},
	"kill and lose all": func(w *twinWorld, s twinStep) {
		w.lose()
		w.down(s.on, s.span, func(server *twinServer) {
			server.dead, server.life = true, server.life+1
			server.goBack(len(server.ran))
		}, func(server *twinServer) { server.dead = false })
	},
	"go back": func(w *twinWorld, s twinStep) {
		w.lose()
		w.change(s.on, func(server *twinServer) { server.goBack(3 * s.n) })
	},
	"flush": func(w *twinWorld, s twinStep) {
		w.lose()
		w.change(s.on, func(server *twinServer) { server.goBack(len(server.ran)) })
	},
	"evict": func(w *twinWorld, s twinStep) {
		w.lose()
		w.change(s.on, func(server *twinServer) { server.evicted[twinKeys[s.n%len(twinKeys)]]++ })
	},
	"out of memory": func(w *twinWorld, s twinStep) { w.refuse(s, proto("OOM command not allowed"), false) },
	"busy":          func(w *twinWorld, s twinStep) { w.refuse(s, proto("BUSY Redis is busy"), false) },
	"try again":     func(w *twinWorld, s twinStep) { w.refuse(s, proto("TRYAGAIN Multiple keys request"), true) },
	"slot moves": func(w *twinWorld, s twinStep) {
		w.during(s.span, func() { w.change(s.on, func(server *twinServer) { server.moves = true }) },
			func() { w.change(s.on, func(server *twinServer) { server.moves = false }) })
	},
	"script flush": func(w *twinWorld, s twinStep) { w.change(s.on, func(server *twinServer) { server.forgot = true }) },
	"clock ahead":  func(w *twinWorld, s twinStep) { w.stepClock(s.on, s.span) },
	"clock back":   func(w *twinWorld, s twinStep) { w.stepClock(s.on, -s.span) },

	// The network of one process.
	"cut":    func(w *twinWorld, s twinStep) { w.part(s, wayCut) },
	"mute":   func(w *twinWorld, s twinStep) { w.part(s, wayMuted) },
	"refuse": func(w *twinWorld, s twinStep) { w.part(s, wayRefused) },

	// Processes.
	"crash": func(w *twinWorld, s twinStep) {
		w.crash(w.someInstance(s.n))
		w.launch(twinRelease{})
	},
	"restart": func(w *twinWorld, s twinStep) {
		w.leave(w.someInstance(s.n))
		w.launch(twinRelease{})
	},
	"freeze": func(w *twinWorld, s twinStep) {
		p := w.someInstance(s.n).process
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stopped = time.Now().Add(s.span)
	},
	"reload": func(w *twinWorld, s twinStep) { w.someInstance(s.n).reload() },

	// Deployments of something else, which leaves again.
	"another fingerprint": func(w *twinWorld, s twinStep) { w.deploy(s, twinRelease{fingerprint: "2"}) },
	"another limit":       func(w *twinWorld, s twinStep) { w.deploy(s, twinRelease{fingerprint: "3", halved: true}) },
	"plain limiter":       func(w *twinWorld, s twinStep) { w.deploy(s, twinRelease{fingerprint: "4", plain: true}) },

	// How the service does. Its levels are decided by the fleet, and one instance may have heard of another one. A bucket's debt is
	// cut to the burst that holds, so a key may have more than its limit while levels change.
	"slow handlers": func(w *twinWorld, s twinStep) {
		w.without()
		w.ends.Go(func() {
			for range 10 * s.n {
				w.someInstance(s.on).fleet.Served(time.Second+s.span, false)
				time.Sleep(100 * time.Millisecond)
			}
		})
	},
	"level": func(w *twinWorld, s twinStep) {
		w.without()
		for _, m := range w.someInstance(s.on).engine.Plan.Load().Policies {
			if a := m.Holdings()[0]; a != nil {
				a.Follow(map[string]adaptive.State{a.Key(): {Less: adaptive.Level(4 * s.n)}})
			}
		}
	},

	// Stages.
	"promote": func(w *twinWorld, _ twinStep) {
		w.settle()
		to := stages.Step{Stage: stages.Promoted}
		_, _ = stages.Advance(context.Background(), w.states, twinPolicy, to, stages.Order{Actor: "test"})
		w.exposed = true
		w.settle()
	},
	"roll back": func(w *twinWorld, _ twinStep) {
		w.settle()
		_, _ = stages.Rollback(context.Background(), w.states, twinPolicy, stages.Order{Actor: "test"})
		w.settle()
	},
}

// twinNames are the names of all steps, in order.
func twinNames() (list []string) {
	for name := range twinSteps {
		list = append(list, name)
	}
	sort.Strings(list)
	return list
}

// drawTwinProgram draws a program: disturbances, and traffic after each of them.
func drawTwinProgram(t *rapid.T, without map[string]bool) (program []twinStep) {
	var names []string
	for _, name := range twinNames() {
		if !without[name] {
			names = append(names, name)
		}
	}

	for range rapid.IntRange(1, 6).Draw(t, "steps") {
		s := twinStep{
			do: rapid.SampledFrom(names).Draw(t, "does"), on: rapid.IntRange(0, 1).Draw(t, "on"),
			n:    rapid.IntRange(1, 12).Draw(t, "n"),
			span: time.Duration(rapid.SampledFrom([]int{0, 1, 30, 120, 400, 1500, 5000, 40000}).Draw(t, "ms")) * time.Millisecond,
		}
		program = append(program, s)
		program = append(program, twinStep{
			do: "requests", on: rapid.IntRange(0, 2).Draw(t, "key"), n: rapid.IntRange(0, 12).Draw(t, "requests"),
			span: time.Duration(rapid.SampledFrom([]int{0, 1, 20, 150, 1100, 3000}).Draw(t, "gap ms")) * time.Millisecond,
		})
	}
	return program
}

// run begins, runs a program, and waits until all disturbances have ended.
func (w *twinWorld) run(program []twinStep) {
	w.start()
	w.play(program)
}

// start waits until the processes know each other, and takes the stage.
func (w *twinWorld) start() {
	time.Sleep(2 * time.Second)
	if w.stage.Stage != "" {
		w.exposed = true
		_, err := stages.Advance(context.Background(), w.states, twinPolicy, w.stage, stages.Order{Actor: "test"})
		if err != nil {
			w.violate("the stage cannot be taken: %v", err)
		}
		time.Sleep(2 * time.Second)
	}
}

// play runs a program, and waits until all its disturbances have ended.
func (w *twinWorld) play(program []twinStep) {
	for _, s := range program {
		twinSteps[s.do](w, s)
	}
	w.requests.Wait()
	w.ends.Wait()
}

// settle waits for requests under way, and for what follows behind them: a side that becomes
// the enforced one does not know yet what is in a queue.
func (w *twinWorld) settle() {
	w.requests.Wait()
	time.Sleep(200 * time.Millisecond)
}

// traffic sends one request after another, without waiting for their answers.
func (w *twinWorld) traffic(ctx context.Context, s twinStep, cost int64) {
	for i := range s.n {
		w.ask(ctx, w.someInstance(i), twinKeys[(s.on+i*(s.n%2))%len(twinKeys)], cost)
		time.Sleep(s.span)
	}
}

// saturate has a key denied for some windows, in which it is never idle. Sides that are out of
// phase show it then.
func (w *twinWorld) saturate(key string, windows int64) {
	n := 3 * w.limits[0].Requests
	for range windows * n {
		w.ask(context.Background(), w.someInstance(0), key, 1)
		time.Sleep(w.limits[0].Window / time.Duration(n))
	}
}

// during begins something and ends it after a time.
func (w *twinWorld) during(d time.Duration, begin, end func()) {
	begin()
	w.ends.Go(func() {
		time.Sleep(d)
		end()
	})
}

func (w *twinWorld) change(on int, do func(*twinServer)) {
	if len(w.servers) > 0 {
		server := w.servers[on%len(w.servers)]
		server.change(func() { do(server) })
	}
}

func (w *twinWorld) down(on int, d time.Duration, begin, end func(*twinServer)) {
	w.without()
	w.during(d, func() { w.change(on, begin) }, func() { w.change(on, end) })
}

// lose notes that something that was counted may be lost.
func (w *twinWorld) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, time.Now())
}

// without notes that a store may not answer. Its breaker keeps requests from it until one has
// tried, so that has no end before the program's.
func (w *twinWorld) without() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = append(w.away, time.Now())
}

func (w *twinWorld) hold(s twinStep, lossy bool) {
	w.without()
	w.change(s.on, func(server *twinServer) { server.held, server.lossy = time.Now().Add(s.span), lossy })
	w.ends.Go(func() { time.Sleep(s.span) })
}

func (w *twinWorld) refuse(s twinStep, err error, spares bool) {
	w.down(s.on, s.span, func(server *twinServer) { server.refuses, server.spares = err, spares },
		func(server *twinServer) { server.refuses = nil })
}

// stepClock steps a server's clock. Sides in two stores whose clocks differ by more than is
// tolerated are judged at different instants, and may differ at the end of each window.
func (w *twinWorld) stepClock(on int, by time.Duration) {
	if w.places[0] != w.places[1] {
		by %= 500 * time.Millisecond
	}
	w.lose()
	w.change(on, func(server *twinServer) { server.clock += by })
}

func (w *twinWorld) part(s twinStep, way twinWay) {
	in := w.someInstance(s.n)
	if len(in.links) == 0 {
		return
	}
	link := in.links[s.on%len(in.links)]
	w.without()
	w.during(s.span, func() { link.set(way) }, func() { link.set(wayOpen) })
}

// reload gives the process a file with other thresholds.
func (in *twinInstance) reload() {
	before := in.engine.Plan.Load()
	p := in.migrationOf(twinRelease{}, in.engine.Stores, before.Policies[0])
	p.Spec.Config.NewlyAllowed /= 2
	in.Pair.policy = p
	in.replan(&engine.Plan{Policies: []*engine.Policy{p}}, nil)
}

// deploy runs a process of another file beside the others for a while, with traffic of its
// own.
func (w *twinWorld) deploy(s twinStep, r twinRelease) {
	// Only another fingerprint moves clients from one side to the other, if the candidate is exposed.
	if r.fingerprint != "" && w.exposed {
		w.mu.Lock()
		w.deployed = append(w.deployed, time.Now())
		w.mu.Unlock()
	}
	w.settle()
	in := w.launch(r)
	w.settle()
	w.remove(in)
	w.ends.Go(func() {
		for i := range s.n {
			w.ask(context.Background(), in, twinKeys[(s.on+i)%len(twinKeys)], 1)
			time.Sleep(s.span/10 + time.Millisecond)
		}
		w.requests.Wait()
		w.leave(in)
	})
}

// adaptiveSide returns how a side of the world gives way: to a half above 500 ms, to a quarter above 2 s.
func (w *twinWorld) adaptiveSide(s algorithms.Side) *policies.Side {
	burst := ""
	if s.Limit.Burst > 0 {
		burst = fmt.Sprintf(", burst: %d", s.Limit.Burst)
	}
	set, err := policies.Load("twins.yaml", fmt.Appendf(nil, "version: 1\nname: twins\npolicies:\n  - { name: p, key: request.user, "+
		"authoritative: { algorithm: %s, limit: %d, window: %s%s, adaptive: { signal: latency_p99 } } }\n",
		s.Algorithm.Name(), s.Limit.Requests, algorithms.FormatWindow(s.Limit.Window), burst))
	if err != nil {
		w.violate("the twins cannot be adaptive: %v", err)
		return nil
	}
	return set.Policies[0].Sides[0]
}

// proto is an answer of Redis that is an error.
type proto string

func (p proto) Error() string { return string(p) }
func (proto) RedisError()     {}
