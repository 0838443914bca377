package integration

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// synchronizedAlgorithms are those whose admissions do not wait.
var synchronizedAlgorithms = []string{"fixed_window_anchored", "sliding_window_counter", "token_bucket", "gcra"}

// synchronizedFile has a policy for each of them, by the path of the request. Processes exchange when the test says so.
func synchronizedFile() string {
	var b strings.Builder
	b.WriteString("version: 1\nname: %s\npolicies:\n")
	for _, algorithm := range synchronizedAlgorithms {
		fmt.Fprintf(&b, "  - { name: %s, when: 'request.path == \"/%[1]s\"', key: request.user, "+
			"authoritative: { algorithm: %[1]s, limit: 1000, window: 1h, store: { sync: 10s } } }\n", algorithm)
	}
	return b.String()
}

// Twenty processes that charge one key admit at most the limit and what nineteen of them admit between two exchanges. A process that is
// killed takes with it what it has admitted since its last exchange, and no more.
func TestTwentySynchronizedProcessesStayWithinTheBound(t *testing.T) {
	const processes, killed, burst, limit, rounds = 20, 2, 7, 1000, 12
	addr, name, began := privateServer(t), namespace(), time.Now()
	fleet := make([]*service, processes)
	for i := range fleet {
		fleet[i] = startServiceIn(t, t.TempDir(), addr, name, fileVariable+"="+synchronizedFile())
	}

	var admitted [4]atomic.Int64
	var all sync.WaitGroup
	for i, one := range fleet {
		all.Go(func() {
			for round := range rounds {
				for n, algorithm := range synchronizedAlgorithms {
					for range burst {
						if status, _ := one.get(t, "/"+algorithm, "alice"); status == 200 {
							admitted[n].Add(1)
						}
					}
				}

				if i < killed && round == i+2 {
					_ = one.cmd.Process.Kill()
					return
				}
				if status, text := one.get(t, syncPath, ""); status != 200 {
					t.Errorf("an exchange is answered %d, %s", status, text)
				}
			}
		})
	}
	all.Wait()

	// A bucket refills meanwhile, and the counter forgets at the most as much.
	refilled := int64(time.Since(began).Seconds()*limit/3600) + 1
	bound := int64(limit) + (processes-1)*burst + killed*burst + refilled
	for n, algorithm := range synchronizedAlgorithms {
		got := admitted[n].Load()
		t.Logf("%s: %d admitted of a limit of %d, bound %d", algorithm, got, limit, bound)
		if got < limit || got > bound {
			t.Errorf("%s: %d admitted, want %d to %d", algorithm, got, limit, bound)
		}
	}
}
