package integration

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// crewVariable makes the test binary a process of many instances; its value is a crew in JSON.
const crewVariable = "SHADOWLIMIT_TEST_CREW"

// crew is a part of a fleet: instances in one process. Both sides are custom limiters, so that Redis has nothing to do but what
// the fleet asks of it.
type crew struct {
	Fleet    []string // addresses, several of a cluster
	Name     string
	First    int // number of its first instance
	Size     int
	Policies int
	StateDir string
}

// Requests of one policy on one instance. Each write and each assessment finds something new in all policies.
const (
	askEvery = 10 * time.Second
	askTicks = 200 // parts of that time, so that requests are spread
	askUsers = 50  // per instance and policy
)

// limiter allows some costs.
func limiter(costs ...int64) shadow.Limiter {
	return shadow.LimiterFunc(func(_ context.Context, _ string, _ algorithms.Limit, cost int64) (algorithms.Decision, error) {
		return algorithms.Decision{Allowed: slices.Contains(costs, cost), Remaining: -1}, nil
	})
}

// costs of the rounds: a minute has requests of every outcome.
var costs = []int64{onBoth, onBoth, onNext, onToday, onNeither, onBoth}

const (
	onBoth int64 = iota + 1
	onToday
	onNext
	onNeither
)

// fleetFile has policies for one path each.
func fleetFile(name string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nname: %s\npolicies:\n", name)
	for i := range n {
		fmt.Fprintf(&b, `
  - name: policy-%d
    when: request.path == "/%d"
    key: request.user
    cost: request.size
    authoritative: { limiter: today, revision: "1" }
    candidate: { limiter: next, revision: "1" }
`, i, i)
	}
	return b.String()
}

func manCrew(text string) error {
	var c crew
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	return c.man()
}

// man runs the instances until the standard input ends.
func (c *crew) man() error {
	set, err := policies.Load("fleet.yaml", []byte(fleetFile(c.Name, c.Policies)))
	if err != nil {
		return err
	}

	list := make([]*shadow.Harness, c.Size)
	failed := make([]error, c.Size)
	var starting sync.WaitGroup
	places := make(chan struct{}, 4)
	for n := range list {
		starting.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			list[n], failed[n] = c.start(c.First+n, set)
		})
	}
	starting.Wait()
	if err := cmp.Or(failed...); err != nil {
		return err
	}

	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	load.Go(func() { c.load(ctx, list) })
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	load.Wait()
	return nil
}

// start starts an instance with connections of its own, which have its name.
func (c *crew) start(n int, set *policies.Set) (*shadow.Harness, error) {
	id := fmt.Sprint("instance-", n)
	options := lua.Tune(&redis.UniversalOptions{Addrs: c.Fleet, IsClusterMode: len(c.Fleet) > 1, ClientName: id}, 10*time.Second)
	h, err := shadow.New(shadow.Config{
		Policies: set, Redis: redis.NewUniversalClient(options), Instance: id, StateDir: c.StateDir,
		Limiters: map[string]shadow.Limiter{"today": limiter(onBoth, onToday), "next": limiter(onBoth, onNext)},
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, err
	}
	return h, h.Start(context.Background())
}

// load asks every policy of every instance once in askEvery.
func (c *crew) load(ctx context.Context, list []*shadow.Harness) {
	all := c.Size * c.Policies
	tick := time.NewTicker(askEvery / askTicks)
	defer tick.Stop()
	for done, n := 0, 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ; done < all*n/askTicks; done++ {
			round, place := done/all, done%all
			c.ask(ctx, list[place%c.Size], c.First+place%c.Size, place/c.Size, round)
		}
	}
}

func (c *crew) ask(ctx context.Context, h *shadow.Harness, instance, policy, round int) {
	h.Decide(ctx, &policies.Request{
		Path: fmt.Sprint("/", policy), User: fmt.Sprint("user-", instance, "-", round%askUsers), Size: costs[round%len(costs)],
	})
}

// crewProcess is a running crew.
type crewProcess struct {
	cmd  *exec.Cmd
	stop func()
}

// launch starts a crew in a process of its own, and returns once all its instances are at work.
func (c crew) launch(t *testing.T) *crewProcess {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crewVariable+"="+string(text))
	cmd.Stderr = os.Stderr

	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() { in.Close(); _ = cmd.Wait() })
	t.Cleanup(stop)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("a process of %d instances does not start: %q, %v", c.Size, line, err)
	}
	return &crewProcess{cmd, stop}
}
