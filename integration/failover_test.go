package integration

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// A replica that lacks the last checks takes over. Clients have again what the replica does
// not know of, which is one capacity at most. Twins have lost the same checks and agree.
func TestFailoverGivesOneCapacity(t *testing.T) {
	const limit, known = 10, 4
	primary, replica := privateServer(t, "--repl-diskless-sync-delay", "0"), privateServer(t)
	host, port, _ := strings.Cut(primary, ":")
	ask(t, replica, "REPLICAOF", host, port)
	proxy, addr := startProxy(t, primary)
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, impatience)).(*redis.Client)
	t.Cleanup(func() { client.Close() })

	var seen outcomes
	h := harnessOf(t, shadow.Config{Policies: sameTwice(t, limit), Redis: client, Observer: seen.observe})
	allowed, answered := 0, 0
	spend := func(requests int) {
		for range requests {
			d := h.Decide(t.Context(), &policies.Request{User: "alice"})
			if d.Allowed {
				allowed++
			}
			if !d.Fallback {
				answered++
			}
		}
	}

	// The replica has some of the checks, and is cut off before the others.
	spend(known)
	conn := client.Conn() // WAIT is for the writes of one connection
	defer conn.Close()
	if err := conn.Set(t.Context(), "mark", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n := conn.Wait(t.Context(), 1, impatience).Val(); n != 1 {
		t.Fatalf("%d replicas have the first checks", n)
	}
	ask(t, replica, "REPLICAOF", "NO", "ONE")
	spend(limit)
	if allowed != limit {
		t.Fatalf("%d allowed before the failover, want %d", allowed, limit)
	}

	// The rule, which denies, decides a request or two whose connections have ended.
	proxy.point(replica)
	spend(2 * limit)
	t.Logf("%d allowed of a limit of %d", allowed, limit)
	if want := limit + limit - known; allowed > want || allowed < want-1 {
		t.Errorf("%d allowed, want %d: the limit, and what the replica did not know of", allowed, want)
	}
	if n := seen.of(shadow.AgreeAllow, shadow.AgreeDeny); n != answered {
		t.Errorf("%d of %d answers were compared, and agree", n, answered)
	}
}
