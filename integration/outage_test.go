package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// outageFleet is a fleet behind a proxy, each process with a directory of its own.
type outageFleet struct {
	name, redis, entrance string
	proxy                 *faultyProxy
	dirs                  []string
	fleet                 []*service
	store                 *promotion.RedisStore
}

// startPromoted starts processes and promotes their policy, and waits until each has it on
// its disk.
func startPromoted(t *testing.T, n int) *outageFleet {
	t.Helper()
	f := &outageFleet{name: namespace(), redis: privateServer(t)}
	f.proxy, f.entrance = startProxy(t, f.redis)
	client := redis.NewClient(&redis.Options{Addr: f.redis, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	f.store = promotion.NewRedisStore(client, f.name)

	for range n {
		f.dirs = append(f.dirs, t.TempDir())
		f.fleet = append(f.fleet, startServiceIn(t, f.dirs[len(f.dirs)-1], f.entrance, f.name))
	}
	full := promotion.Step{Stage: promotion.Promoted}
	s := must(t)(promotion.Advance(t.Context(), f.store, "per-user", full, drillOrder))
	for _, dir := range f.dirs {
		await(t, "the stage is on disk", func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, f.name+".stages.json"))
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
			return strings.Contains(text, `"here"`)
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
		all, err := f.store.Instances(t.Context())
		return err == nil && len(all) == 3 // one of them has been killed, and is silent
	})
	history, err := f.store.History(t.Context(), "per-user")
	if err != nil || len(history) != 2 {
		t.Errorf("%v, %v", history, err)
	}
}
