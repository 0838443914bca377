package integration

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// drill is a fleet of processes on a Redis with a replica. Proxies stand in front of
// Redis, so that a test can cut off the instances and itself separately.
type drill struct {
	name             string
	fleet            []*service
	primary, replica string
	ours, theirs     *faultyProxy // of the test and the commands; of the instances
	entrance         string       // address of ours
	store            *stages.RedisStore
}

const (
	drilled    = 20               // processes
	impatience = 10 * time.Second // bounds each wait for an event
)

func newDrill(t *testing.T) *drill {
	built(t)
	d := &drill{name: namespace(), primary: privateServer(t, "--repl-diskless-sync-delay", "0")}

	var instances string
	d.ours, d.entrance = startProxy(t, d.primary)
	d.theirs, instances = startProxy(t, d.primary)

	client := redis.NewClient(&redis.Options{Addr: d.entrance, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	d.store = stages.NewRedisStore(client, d.name)

	for range drilled {
		d.fleet = append(d.fleet, startService(t, instances, d.name))
	}

	d.addReplica(t)
	return d
}

// built builds the program now, so that no timeout of a test includes the build.
func built(t *testing.T) {
	t.Helper()
	if _, err := command(); err != nil {
		t.Fatal(err)
	}
}

// ask runs a command on a server.
func ask(t *testing.T, addr string, args ...any) string {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer client.Close()
	out, err := client.Do(t.Context(), args...).Text()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

// addReplica starts a replica and waits until it has all data.
func (d *drill) addReplica(t *testing.T) {
	t.Helper()
	d.replica = privateServer(t)
	host, port, _ := strings.Cut(d.primary, ":")
	ask(t, d.replica, "REPLICAOF", host, port)
	d.eventually(t, "the replica is in step", func() bool {
		return strings.Contains(ask(t, d.replica, "INFO", "replication"), "master_link_status:up")
	})
}

// eventually waits until a condition holds.
func (d *drill) eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	late := time.After(impatience)
	for tick := time.Tick(2 * time.Millisecond); !so(); {
		select {
		case <-tick:
		case <-late:
			t.Fatalf("waited in vain until %s: the store has %s", what, d.state(t))
		}
	}
}

func (d *drill) state(t *testing.T) stages.State {
	t.Helper()
	states, err := d.store.States(t.Context(), []string{"per-user"})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

// awaitAll waits until all instances report that they have applied a version.
func (d *drill) awaitAll(t *testing.T, v stages.Version) {
	t.Helper()
	behind := func(i stages.Instance) bool { return i.Policies["per-user"].Version != v }

	d.eventually(t, "all have applied "+v.String(), func() bool {
		f, err := d.store.Fleet(t.Context())
		return err == nil && len(f.Instances) == drilled && !slices.ContainsFunc(f.Instances, behind)
	})
}

// must returns the state after an order, which must not fail.
func must(t *testing.T) func(stages.State, error) stages.State {
	return func(s stages.State, err error) stages.State {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

var drillOrder = stages.Order{Actor: "test", Reason: "drill"}

// expose moves the policy to a canary of all keys, on every instance.
func (d *drill) expose(t *testing.T) stages.State {
	t.Helper()
	if s := d.state(t); s.Stage == stages.RolledBack {
		must(t)(stages.Resume(t.Context(), d.store, "per-user", drillOrder))
	}

	step := stages.Step{Stage: stages.Canary, Percent: 100}
	s := must(t)(stages.Advance(t.Context(), d.store, "per-user", step, drillOrder))
	d.awaitAll(t, s.Version)
	return s
}

// failOver kills the primary and sends everyone to the replica.
func (d *drill) failOver(t *testing.T) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: d.primary, MaxRetries: -1})
	defer client.Close()

	_ = client.ShutdownNoSave(t.Context()).Err() // the connection ends instead of an answer
	d.primary, d.replica = d.replica, ""
	d.ours.point(d.primary)
	d.theirs.point(d.primary)

	// The first request may get a connection that is dead.
	d.eventually(t, "the new primary answers", func() bool {
		_, err := d.store.Heartbeat(t.Context(), stages.Heartbeat{})
		return err == nil
	})
}

// advances returns the number of times that instances have begun to enforce the
// candidate.
func (d *drill) advances(t *testing.T) (n int64) {
	t.Helper()
	for _, one := range d.fleet {
		n += one.metric(t, "shadowlimit_transitions_total", `stage="canary"`)
		n += one.metric(t, "shadowlimit_transitions_total", `stage="promoted"`)
	}
	return n
}

// checkRolledBack holds that every instance has applied a rollback, and that the trail
// has it once and last.
func (d *drill) checkRolledBack(t *testing.T, v stages.Version) {
	t.Helper()

	for i, one := range d.fleet {
		if one.metric(t, "shadowlimit_stage", `stage="rolled_back"`) != 1 {
			t.Errorf("instance %d does not enforce the authoritative", i)
		}
	}

	history, err := d.store.History(t.Context(), "per-user")
	if err != nil {
		t.Fatal(err)
	}

	var times int
	for _, s := range history {
		if s.Version == v {
			times++
		}
	}

	if last := history[len(history)-1]; times != 1 || last.Version != v || last.Stage != stages.RolledBack {
		t.Errorf("the trail has the rollback %s %d times and ends with %s, want it once and last: %v", v, times, last, history)
	}
}

// Every process applies a rollback at once. A failover to a replica that has not
// received it does not lose it.
func TestRollbackDrill(t *testing.T) {
	t.Parallel()
	long(t)
	d := newDrill(t)

	t.Run("reaches every instance", func(t *testing.T) { reaches(t, d) })
	t.Run("is restored by the instances", func(t *testing.T) { survives(t, d) })
	d.addReplica(t)
	t.Run("is restored by the command", func(t *testing.T) { isRestored(t, d) })
}

// reaches logs the time until all instances have applied a rollback.
func reaches(t *testing.T, d *drill) {
	var took []time.Duration
	for range 5 {
		d.expose(t)

		start := time.Now()
		s := must(t)(stages.Rollback(t.Context(), d.store, "per-user", drillOrder))
		d.awaitAll(t, s.Version)
		took = append(took, time.Since(start))
	}

	slices.Sort(took)
	t.Logf("%d processes applied and acknowledged a rollback after %s, the median of %v", drilled, took[len(took)/2], took)
}

// survives kills the primary after all instances have applied a rollback that the
// replica has not received.
func survives(t *testing.T, d *drill) {
	before := d.expose(t)
	d.eventually(t, "the replica has the canary", func() bool { return d.has(t, d.replica, before) })
	ask(t, d.replica, "REPLICAOF", "NO", "ONE")

	s := must(t)(stages.Rollback(t.Context(), d.store, "per-user", drillOrder))
	d.awaitAll(t, s.Version)
	advances := d.advances(t)

	// A controller that has not heard of the rollback reaches the new primary first, and
	// promotes.
	d.theirs.set(refuse)
	d.failOver(t)
	stale := stages.Order{Actor: "stale controller", Expect: &before.Version}
	full := stages.Step{Stage: stages.Promoted}
	undone := must(t)(stages.Advance(t.Context(), d.store, "per-user", full, stale))

	d.theirs.set(passOn)
	d.awaitAll(t, s.Version)

	stale.Expect = &undone.Version
	if _, err := stages.Pause(t.Context(), d.store, "per-user", stale); !errors.Is(err, stages.ErrConflict) {
		t.Errorf("the stale controller may go on: %v", err)
	}
	if n := d.advances(t); n != advances {
		t.Errorf("instances began to enforce the candidate %d times since the rollback", n-advances)
	}

	d.checkRolledBack(t, s.Version)
}

func (d *drill) has(t *testing.T, addr string, s stages.State) bool {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer client.Close()
	states, err := stages.NewRedisStore(client, d.name).States(t.Context(), []string{"per-user"})
	return err == nil && states[0].Equal(s)
}

// isRestored kills the primary when only it and the command know of the rollback.
func isRestored(t *testing.T, d *drill) {
	before := d.expose(t)
	d.eventually(t, "the replica has the canary", func() bool { return d.has(t, d.replica, before) })
	ask(t, d.replica, "REPLICAOF", "NO", "ONE")
	d.theirs.set(refuse)

	var status int
	var out string
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, out = shell(t, server{addr: d.entrance}, d.name,
			"rollback", "per-user", "--reason", "drill", "--timeout", "20s")
	}()
	d.eventually(t, "the rollback is stored", func() bool { return d.state(t).Stage == stages.RolledBack })
	s := d.state(t)

	// The command must notice the outage, or it would not try again.
	d.ours.set(refuse)
	turned := d.ours.turned.Load()
	d.eventually(t, "the command has found no Redis", func() bool { return d.ours.turned.Load() > turned })

	d.ours.set(passOn)
	d.failOver(t)
	d.eventually(t, "the rollback is stored again", func() bool { return d.state(t).Equal(s) })

	d.theirs.set(passOn)
	d.awaitAll(t, s.Version)
	<-done
	if status != 0 || !strings.Contains(out, "20/20 applied") {
		t.Errorf("status %d, want 0 with 20/20 applied:\n%s", status, out)
	}

	d.checkRolledBack(t, s.Version)
}

// Of two simultaneous promotions, by processes that have read the same state, one wins.
func TestTwoPromotionsAtOnce(t *testing.T) {
	built(t)
	addr := privateServer(t)
	name := namespace()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })
	store := stages.NewRedisStore(client, name)

	spec := stages.Spec{Policy: "per-user", Fingerprint: "e", Config: stages.Config{}.WithDefaults()}
	_, err := store.Heartbeat(t.Context(), stages.Heartbeat{Specs: []stages.Spec{spec}})
	if err := errors.Join(err, stages.Begin(t.Context(), store, "per-user", "e", 0, "test")); err != nil {
		t.Fatal(err)
	}

	for n, step := range []string{"1%", "10%", "50%", "full"} {
		expect := stages.Version{Term: 1, Seq: int64(1 + n)}.String()

		// Writes are paused until both processes have read the state.
		ask(t, addr, "CLIENT", "PAUSE", 60000, "WRITE")

		statuses := make(chan int)
		for range 2 {
			go func() {
				status, _ := shell(t, server{addr: addr}, name,
					"promote", "per-user", "--to", step, "--expect", expect, "--force", "--reason", "drill")
				statuses <- status
			}()
		}

		late := time.After(impatience)
		for tick := time.Tick(time.Millisecond); !strings.Contains(ask(t, addr, "INFO", "clients"), "blocked_clients:2"); {
			select {
			case <-tick:
			case <-late:
				t.Fatal("the two promotions have not reached their writes")
			}
		}
		ask(t, addr, "CLIENT", "UNPAUSE")

		got := []int{<-statuses, <-statuses}
		if slices.Sort(got); !slices.Equal(got, []int{0, 4}) {
			t.Errorf("to %s: the processes ended with %v, want 0 and 4", step, got)
		}
	}
}
