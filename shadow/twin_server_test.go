package shadow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/lua"
)

// twinServer is a Redis as a store sees one. It judges one command after another by its own
// clock, and may hold commands up, refuse them, die, and lose what it has kept.
type twinServer struct {
	mu     sync.Mutex
	memory *algorithms.Memory
	ran    []algorithms.Check // since the data began; a replica replays them
	raised []int              // how many checks had run at each raise of the counter that shows a loss
	filler int

	clock   time.Duration // ahead of the true time
	held    time.Time     // until when commands wait
	lossy   bool          // commands without a client that waits do not run
	dead    bool
	life    int // counted by kills: commands that wait are lost then
	refuses error
	spares  bool           // it refuses only commands with both sides
	moves   bool           // of commands with several keys, only the enforced side's find theirs
	reduced int            // commands of which only the enforced side was judged
	forgot  bool           // it does not know the script of the next command
	evicted map[string]int // by key, how often its record was evicted
}

// newTwinServer returns an empty server. Its memory has one shard: a replay then drops the
// same idle keys as the first run did.
func newTwinServer() *twinServer {
	return &twinServer{memory: newTwinMemory(), evicted: map[string]int{}}
}

func newTwinMemory() *algorithms.Memory {
	return algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 1000})
}

var errTwinDown = errors.New("connection refused")

// twinReply is the answer to one command.
type twinReply struct {
	engine.Observations
	err error
}

// exchange runs the commands of one client's round trip. The client waits until ctx is over;
// commands that are held up longer run all the same, unless the server is lossy.
func (s *twinServer) exchange(ctx context.Context, checks []algorithms.Check, latency time.Duration) ([]twinReply, error) {
	replies := make(chan []twinReply, 1)
	s.mu.Lock()
	life := s.life
	s.mu.Unlock()

	go func() {
		time.Sleep(latency)
		if s.unknown() {
			time.Sleep(2 * latency) // the answer is NOSCRIPT, and the script comes as text
		}
		list := s.run(ctx, checks, life)
		time.Sleep(latency)
		replies <- list
	}()

	select {
	case list := <-replies:
		return list, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// unknown reports whether the server does not know the script of a command. It learns it then.
func (s *twinServer) unknown() (forgot bool) {
	s.change(func() { forgot, s.forgot = s.forgot, false })
	return forgot
}

// run waits until the server is not held, and judges.
func (s *twinServer) run(ctx context.Context, checks []algorithms.Check, life int) []twinReply {
	s.mu.Lock()
	for wait := time.Until(s.held); wait > 0 && s.life == life && !s.dead; wait = time.Until(s.held) {
		s.mu.Unlock()
		time.Sleep(wait)
		s.mu.Lock()
	}
	defer s.mu.Unlock()

	list := make([]twinReply, len(checks))
	for i, c := range checks {
		both := c.Sides[0].Present() && c.Sides[1].Present()
		switch {
		case s.dead, s.life != life:
			list[i].err = errTwinDown
		case s.lossy && ctx.Err() != nil:
			list[i].err = ctx.Err()
		case s.refuses != nil && (both || !s.spares):
			list[i].err = s.refuses
		case s.moves && both && hasLog(&c):
			s.reduced++
			other := c.Enforced.Other()
			c.Sides[other] = algorithms.Side{}
			list[i].Observations, list[i].err = s.judge(c)
			list[i].Observations[other] = algorithms.Observation{Status: algorithms.Deferred}
		default:
			list[i].Observations, list[i].err = s.judge(c)
		}
	}
	return list
}

// hasLog reports whether a side has a key beside the record.
func hasLog(c *algorithms.Check) bool {
	return slices.ContainsFunc(c.Sides[:], func(s algorithms.Side) bool { return s.Algorithm == algorithms.SlidingWindowLog{} })
}

// judge requires s.mu.
func (s *twinServer) judge(c algorithms.Check) (engine.Observations, error) {
	if c.At.IsZero() {
		c.At = time.Now().Add(s.clock)
	}
	s.expire(c.At)
	c.Key = fmt.Sprint(c.Key, "/", s.evicted[c.Key])
	return s.check(c)
}

// expire drops records that are idle, as Redis does: the memory looks at two of them for
// each new key.
func (s *twinServer) expire(at time.Time) {
	for range 2 {
		s.filler++
		filler := algorithms.Side{Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 1, Window: time.Microsecond}}
		_, _ = s.check(algorithms.Check{
			Policy: "filler", Key: fmt.Sprint(s.filler), Cost: 1, At: at, Sides: [2]algorithms.Side{filler},
		})
	}
}

func (s *twinServer) check(c algorithms.Check) (engine.Observations, error) {
	s.ran = append(s.ran, c)
	var into [1]engine.Observations
	err := s.memory.Evaluate(context.Background(), []algorithms.Check{c}, into[:])
	return into[0], err
}

// change changes the server between two commands.
func (s *twinServer) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// goBack has the server lose its last commands: an older file is loaded, or a replica that
// lags behind takes over. All of them is an empty server.
func (s *twinServer) goBack(missed int) {
	kept := s.ran[:max(0, len(s.ran)-missed)]
	s.raised = slices.DeleteFunc(s.raised, func(ran int) bool { return ran > len(kept) || len(kept) == 0 })
	s.memory, s.ran = newTwinMemory(), nil
	for _, c := range kept {
		_, _ = s.check(c)
	}
}

// twinLink is one instance's connection to a server. It implements algorithms.Pair as the
// pair in Redis does: what fails is an observation.
type twinLink struct {
	*twinServer
	process *twinProcess

	mu   sync.Mutex
	rng  *rand.Rand
	open twinWay
}

// Half of a round trip takes between these two.
const twinLeast, twinSpread = 100 * time.Microsecond, 800 * time.Microsecond

// latency is half of a round trip's time. No two are alike, so that no two commands arrive
// together.
func (l *twinLink) latency() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return twinLeast + time.Duration(l.rng.Int64N(int64(twinSpread)))
}

// twinProcess is the process of an instance, which may be stopped for a while.
type twinProcess struct {
	mu      sync.Mutex
	stopped time.Time // until then
	crashed bool
}

// running waits while the process is stopped.
func (p *twinProcess) running() {
	p.mu.Lock()
	stopped := p.stopped
	p.mu.Unlock()
	time.Sleep(time.Until(stopped))
}

func (p *twinProcess) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crashed
}

// Evaluate implements algorithms.Pair.
func (l *twinLink) Evaluate(ctx context.Context, checks []algorithms.Check, into [][2]algorithms.Observation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	kept := slices.Clone(checks)
	for i := range kept {
		kept[i].Key = strings.Clone(kept[i].Key)
	}

	replies, err := l.ask(ctx, kept)
	for i := range kept {
		failed := err
		if err == nil {
			failed = replies[i].err
			into[i] = replies[i].Observations
		}
		for role := range into[i] {
			switch {
			case failed == nil:
			case kept[i].Sides[role].Present():
				into[i][role] = algorithms.Failure(&lua.StoreError{Side: algorithms.Role(role), Err: failed})
			default:
				into[i][role] = algorithms.Observation{}
			}
		}
	}
	return nil
}

// ask sends the commands of one round trip, with the client's own timeout.
func (l *twinLink) ask(ctx context.Context, checks []algorithms.Check) ([]twinReply, error) {
	l.process.running()
	defer l.process.running()
	ctx, cancel := context.WithTimeout(ctx, lua.DefaultBudget)
	defer cancel()

	way := l.way()
	switch {
	case l.process.gone(), way == wayRefused:
		return nil, errTwinDown
	case way == wayCut:
		<-ctx.Done()
		return nil, ctx.Err()
	}

	replies, err := l.exchange(ctx, checks, l.latency())
	if way == wayMuted {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return replies, err
}

// twinWay is the fate of the commands on a link.
type twinWay int

const (
	wayOpen    twinWay = iota
	wayCut             // nothing arrives at the server
	wayMuted           // no answer arrives from it
	wayRefused         // the connection is refused at once
)

func (l *twinLink) way() twinWay {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *twinLink) set(way twinWay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = way
}

// raise raises the counter that shows a loss of data, as the command INCR does.
func (l *twinLink) raise(context.Context) (int64, error) {
	l.process.running()
	if l.way() != wayOpen || l.process.gone() {
		return 0, errTwinDown
	}
	time.Sleep(2 * l.latency())

	s := l.twinServer
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || time.Now().Before(s.held) {
		return 0, errTwinDown
	}
	s.raised = append(s.raised, len(s.ran))
	return int64(len(s.raised)), nil
}
