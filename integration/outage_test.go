package integration

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// outageFleet is a fleet behind a proxy, each process with a directory of its own.
type outageFleet struct {
	name, redis, entrance string
	proxy                 *faultyProxy
	dirs                  []string
	fleet                 []*service
	store                 *stages.RedisStore
}

// startPromoted starts processes and promotes their policy, and waits until each has it on
// its disk.
func startPromoted(t *testing.T, n int) *outageFleet {
	t.Helper()
	f := &outageFleet{name: namespace(), redis: privateServer(t)}
	f.proxy, f.entrance = startProxy(t, f.redis)
	client := redis.NewClient(&redis.Options{Addr: f.redis, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	f.store = stages.NewRedisStore(client, f.name)

	for range n {
		f.dirs = append(f.dirs, t.TempDir())
		f.fleet = append(f.fleet, startServiceIn(t, f.dirs[len(f.dirs)-1], f.entrance, f.name))
	}
	full := stages.Step{Stage: stages.Promoted}
	s := must(t)(stages.Advance(t.Context(), f.store, "per-user", full, drillOrder))
	for _, dir := range f.dirs {
		await(t, "the stage is on disk", func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, f.name+".stages1.json"))
			return strings.Contains(string(text), `"Seq":2`) && strings.Contains(string(text), string(s.Stage))
		})
	}
	return f
}

// restart kills a process, without a last word, and starts it again.
func (f *outageFleet) restart(t *testing.T, i int) {
	t.Helper()
	if err := f.fleet[i].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = f.fleet[i].cmd.Wait() // it was killed
	f.fleet[i] = startServiceIn(t, f.dirs[i], f.entrance, f.name)
}

// here returns what an instance knows without Redis.
func (f *outageFleet) here(t *testing.T, i int) status.Enforcement {
	t.Helper()
	var page struct {
		Here status.Here `json:"here"`
	}
	code, text := f.fleet[i].get(t, "/status?format=json", "")
	if err := json.Unmarshal([]byte(text), &page); err != nil || code != 200 || len(page.Here.Policies) != 1 {
		t.Fatalf("%d, %v: %s", code, err, text)
	}
	return page.Here.Policies[0]
}

// A process that restarts while Redis is away goes on in the fleet's stage: the fleet is not
// split between two limiters.
func TestRestartInAnOutageSplitsNoFleet(t *testing.T) {
	f := startPromoted(t, 2)
	f.proxy.set(refuse)
	f.restart(t, 1)

	for i := range f.fleet {
		await(t, "the page says that the store is silent", func() bool {
			_, text := f.fleet[i].get(t, "/status?format=json", "")
			return strings.Contains(text, `"error"`)
		})
		if e := f.here(t, i); e.Enforced != "candidate" || e.Version != "1.2" {
			t.Errorf("instance %d: %+v", i, e)
		}
	}

	// The candidate allows 3 and the authoritative 5: the answers are the candidate's.
	code, _ := 0, ""
	for range 4 {
		code, _ = f.fleet[1].get(t, "/", "alice")
	}
	if code != 429 {
		t.Errorf("the fourth request of a user is answered %d by the restarted instance", code)
	}

	// Redis is back with what it had: nothing was moved meanwhile.
	f.proxy.set(passOn)
	await(t, "the restarted instance is back", func() bool {
		f, err := f.store.Fleet(t.Context())
		return err == nil && len(f.Instances) == 3 // one of them has been killed, and is silent
	})
	history, err := f.store.History(t.Context(), "per-user")
	if err != nil || len(history) != 2 {
		t.Errorf("%v, %v", history, err)
	}
}

// In an outage one instance is pressed by HTTP and another by a signal, and one of them is
// killed and starts again. When Redis is back the fleet is rolled back, once. It cannot be
// resumed before both are released.
func TestPressesOfAFleetInAnOutage(t *testing.T) {
	t.Parallel()
	long(t)
	built(t)
	f := startPromoted(t, 3)
	f.proxy.set(refuse)

	response, err := httpClient.Post(f.fleet[0].url+"/red-button", "", nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	response.Body.Close()
	if err := f.fleet[1].cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	await(t, "the signal's press is on the disk", func() bool {
		_, text := f.fleet[1].get(t, "/red-button", "")
		return strings.Contains(text, `"by":["signal"],"kept":true`)
	})
	f.restart(t, 1)
	for i, want := range []string{"authoritative", "authoritative", "candidate"} {
		await(t, "the page says that the store is silent", func() bool {
			_, text := f.fleet[i].get(t, "/status?format=json", "")
			return strings.Contains(text, `"error"`)
		})
		if e := f.here(t, i); e.Enforced != want {
			t.Errorf("instance %d in the outage: %+v", i, e)
		}
	}

	f.proxy.set(passOn)
	await(t, "all are rolled back", func() bool {
		for _, one := range f.fleet {
			if one.metric(t, "shadowlimit_stage", `stage="rolled_back"`) != 1 {
				return false
			}
		}
		return true
	})
	await(t, "no order is left", func() bool {
		_, first := f.fleet[0].get(t, "/red-button", "")
		_, second := f.fleet[1].get(t, "/red-button", "")
		return strings.Contains(first+second, `"not_stored":[]`) && !strings.Contains(first+second, `"fingerprint"`)
	})
	history, err := f.store.History(t.Context(), "per-user")
	if last := history[len(history)-1]; err != nil || len(history) != 3 || !strings.HasPrefix(last.Actor, "red button of") {
		t.Errorf("%v, %v", history, err)
	}
	f.checkResume(t)
}

// checkResume holds that the policy can be resumed when both buttons are released.
func (f *outageFleet) checkResume(t *testing.T) {
	t.Helper()
	resume := func() (int, string) {
		return shell(t, server{addr: f.redis}, f.name, "resume", "per-user", "--reason", "drill")
	}
	if status, out := resume(); status != 3 || !strings.Contains(out, "the red button is pressed on") {
		t.Errorf("resumed while two buttons are pressed: %d: %s", status, out)
	}

	for i := range 2 {
		r, err := http.NewRequest(http.MethodDelete, f.fleet[i].url+"/red-button", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := httpClient.Do(r)
		if err != nil || response.StatusCode != 200 {
			t.Fatal(response, err)
		}
		response.Body.Close()
	}
	await(t, "the releases are reported", func() bool {
		f, err := f.store.Fleet(t.Context())
		return err == nil && !slices.ContainsFunc(f.Instances, func(i stages.Instance) bool { return i.RedButton })
	})
	if status, out := resume(); status != 0 {
		t.Errorf("resumed: %d: %s", status, out)
	}
}

// Redis is restarted from an old snapshot, in which the policy that was rolled back is promoted. The processes know better, and
// so do their disks where all of them start again meanwhile.
func TestRedisFromAnOldSnapshot(t *testing.T) {
	t.Parallel()
	long(t)
	f := startPromoted(t, 2)
	client := redis.NewClient(&redis.Options{Addr: f.redis, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	from, err := client.ConfigGet(t.Context(), "dir").Result()
	if err = errors.Join(err, client.Save(t.Context()).Err()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(from["dir"], "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	must(t)(stages.Rollback(t.Context(), f.store, "per-user", drillOrder))
	for _, dir := range f.dirs {
		await(t, "the rollback is on disk", func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, f.name+".stages1.json"))
			return strings.Contains(string(text), string(stages.RolledBack))
		})
	}

	// The snapshot is a server of its own, to which the address leads from now on.
	restore := func() {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "dump.rdb"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		addr := privateServer(t, "--dir", dir)
		client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		t.Cleanup(func() { client.Close() })
		f.store = stages.NewRedisStore(client, f.name)
		if states, err := f.store.States(t.Context(), []string{"per-user"}); err != nil || states[0].Stage != stages.Promoted {
			t.Fatalf("the snapshot has %v, %v", states, err)
		}
		f.proxy.point(addr)
	}
	check := func(when string) {
		t.Helper()
		await(t, "the rollback is stored again", func() bool {
			states, err := f.store.States(t.Context(), []string{"per-user"})
			return err == nil && states[0].Stage == stages.RolledBack && states[0].Hold
		})
		for i, one := range f.fleet {
			if n := one.metric(t, "shadowlimit_stage", `stage="rolled_back"`); n != 1 {
				t.Errorf("%s: instance %d is not rolled back", when, i)
			}
		}
		full := stages.Step{Stage: stages.Promoted}
		if s, err := stages.Advance(t.Context(), f.store, "per-user", full, drillOrder); err == nil {
			t.Errorf("%s: %s, without a resume", when, s)
		}
	}
	restore()
	check("restored under processes that run")

	f.proxy.set(refuse)
	for i := range f.fleet {
		f.restart(t, i)
	}
	restore()
	f.proxy.set(passOn)
	check("restored while all start again")
}
