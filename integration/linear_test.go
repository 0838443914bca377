package integration

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
)

// TestConcurrentHistoryIsLinear charges one key from several callers. It replays the
// charges through the oracle in the order in which the server ran the scripts, as
// MONITOR reports it, and compares the decisions.
func TestConcurrentHistoryIsLinear(t *testing.T) {
	const callers, charges = 8, 100

	for _, a := range algorithms.All {
		t.Run(a.Name(), func(t *testing.T) {
			addr := privateServer(t)
			pair, client := newPair(t, addr)

			limit := limitOf(a)
			limit.Requests *= 20
			limit.Burst *= 20
			side := algorithms.Side{Algorithm: a, Limit: limit}

			monitor, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer monitor.Close()

			fmt.Fprint(monitor, "MONITOR\r\n")
			said := bufio.NewReader(monitor)
			if line, err := said.ReadString('\n'); err != nil || line != "+OK\r\n" {
				t.Fatalf("MONITOR: %q %v", line, err)
			}

			var mu sync.Mutex
			told := map[string]algorithms.Decision{} // by instant, which is different for each charge
			var group sync.WaitGroup
			for caller := range callers {
				group.Go(func() {
					for i := range charges {
						at := time.Date(2026, 1, 2, 12, 0, i, caller*1000, time.UTC)
						c := algorithms.Charge{Policy: "p", Key: "k", Cost: int64(1 + i%4), At: at}
						c.Sides[0] = side
						o := evaluate(t, pair, c)

						mu.Lock()
						told[strconv.FormatInt(at.UnixMicro(), 10)] = o[0][0].Decision
						mu.Unlock()
					}
				})
			}

			group.Wait()

			// The echo marks the end of the history.
			if err := client.Echo(context.Background(), "the end").Err(); err != nil {
				t.Fatal(err)
			}

			oracle := limitertest.NewOracle(a.Name())
			replayed, denied := 0, 0
			for {
				line, err := said.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(line, `"the end"`) {
					break
				}

				at, cost, ok := scriptCall(line)
				if !ok {
					continue
				}

				us, _ := strconv.ParseInt(at, 10, 64)
				want := oracle.Step(limit, cost, us)
				if got, known := told[at]; !known || got != want {
					t.Fatalf("call %d, cost %d at %s: the caller got %+v, the oracle %+v", replayed, cost, at, got, want)
				}

				replayed++
				if !want.Allowed {
					denied++
				}
			}

			if replayed != callers*charges || denied == 0 || denied == replayed {
				t.Errorf("%d of %d calls replayed, %d denied: want all, and some of each", replayed, callers*charges, denied)
			}
		})
	}
}

// scriptCall reads the instant and the cost from a line of MONITOR:
// +1767355200.5 [0 127.0.0.1:40000] "evalsha" "hash" "keys" "key"... "at" "ttl" "cost" ...
func scriptCall(line string) (at string, cost int64, ok bool) {
	_, command, found := strings.Cut(line, `] "eval`)
	if !found {
		return "", 0, false
	}

	// No argument of this test contains a quote. The text of a script does, escaped.
	command = strings.ReplaceAll(command, `\"`, "")
	args := strings.Split(strings.TrimSuffix(strings.TrimSpace(command), `"`), `" "`)

	keys, err := strconv.Atoi(args[2])
	if err != nil {
		return "", 0, false
	}

	cost, err = strconv.ParseInt(args[3+keys+2], 10, 64)
	return args[3+keys], cost, err == nil
}
