package integration

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// adaptiveFile has a policy whose candidate gives way, and one without a candidate.
const adaptiveFile = `
version: 1
name: %s
policies:
  - name: migrating
    when: request.path == "/migrating"
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 64, window: 1d }
    candidate: { algorithm: sliding_window_counter, limit: 64, window: 1d, adaptive: { signal: latency_p99 } }
  - name: plain
    when: request.path == "/plain"
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 64, window: 1d, adaptive: { signal: latency_p99 } }
`

// One sick instance of twenty has the slowest 5 % of the fleet's requests, so every process applies the least level: each one alone
// would go by what it has seen. Together they admit the quarter, and not a request more.
func TestTwentyProcessesGiveWayTogether(t *testing.T) {
	t.Parallel()
	long(t)
	built(t) // the level lasts no longer than a compiler takes
	const processes = 20
	addr, name := privateServer(t), namespace()
	fleet := make([]*service, processes)
	for i := range fleet {
		fleet[i] = startServiceIn(t, t.TempDir(), addr, name, fileVariable+"="+adaptiveFile)
	}

	// The signal is of the last 10 s, so the handlers go on until all processes have heard of the level.
	heard := func() (n int) {
		for i, one := range fleet {
			took := "10ms"
			if i == 0 {
				took = "3s"
			}
			one.get(t, servedPath+"?took="+took, "")
			_, metrics := one.get(t, "/metrics", "")
			if strings.Count(metrics, "\nshadowlimit_adaptive_level{") == 2 && strings.Count(metrics, `"} 0.25`+"\n") == 2 {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(2 * time.Minute); heard() < processes; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d processes have the level of a quarter", heard(), processes)
		}
	}

	var admitted atomic.Int64
	var all sync.WaitGroup
	for _, one := range fleet {
		all.Go(func() {
			for range 4 {
				if status, _ := one.get(t, "/plain", "ann"); status == 200 {
					admitted.Add(1)
				}
				one.get(t, "/migrating", "ann")
			}
		})
	}
	all.Wait()
	if n := admitted.Load(); n != 16 {
		t.Errorf("%d requests are admitted of 80, want 16, a quarter of the limit of 64", n)
	}

	for want, args := range map[string][]string{
		"candidate at 25 % of its limit": {"status", "migrating"},
		`"level": 0.25`:                  {"status", "-o", "json"},
	} {
		if _, out := shell(t, server{addr: addr}, name, args...); !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", fmt.Sprint(args), want, out)
		}
	}
}
