package integration

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
)

// TestConcurrentHistoryIsLinear charges one key from several callers. It replays the
// checks through the oracle in the order in which the server ran the scripts, as
// MONITOR reports it, and compares the decisions.
func TestConcurrentHistoryIsLinear(t *testing.T) {
	for _, a := range algorithms.All {
		t.Run(a.Name(), func(t *testing.T) {
			addr := privateServer(t)
			pair, client := newPair(t, addr)

			limit := limitOf(a)
			limit.Requests *= 20
			limit.Burst *= 20

			history := monitor(t, addr)
			told := checkAtOnce(t, pair, algorithms.Side{Algorithm: a, Limit: limit})

			// The echo marks the end of the history.
			if err := client.Echo(context.Background(), "the end").Err(); err != nil {
				t.Fatal(err)
			}
			checkHistory(t, history, limitertest.NewOracle(a.Name()), limit, told)
		})
	}
}

// monitor returns the commands of a server, from now on.
func monitor(t *testing.T, addr string) *bufio.Reader {
	t.Helper()

	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })

	fmt.Fprint(conn, "MONITOR\r\n")
	history := bufio.NewReader(conn)
	if line, err := history.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("MONITOR: %q %v", line, err)
	}
	return history
}

// checkAtOnce charges one key from several callers and returns their decisions by
// instant in microseconds, which is different for each check.
func checkAtOnce(t *testing.T, pair algorithms.Pair, side algorithms.Side) map[string]algorithms.Decision {
	t.Helper()
	const callers, checks = 8, 100

	var mu sync.Mutex
	told := map[string]algorithms.Decision{}
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := range checks {
				at := time.Date(2026, 1, 2, 12, 0, i, caller*1000, time.UTC)
				c := algorithms.Check{Policy: "p", Key: "k", Cost: int64(1 + i%4), At: at}
				c.Sides[0] = side
				o := evaluate(t, pair, c)

				mu.Lock()
				told[strconv.FormatInt(at.UnixMicro(), 10)] = o[0][0].Decision
				mu.Unlock()
			}
		})
	}

	group.Wait()
	return told
}

// checkHistory replays the history of a server and compares each decision.
func checkHistory(
	t *testing.T, history *bufio.Reader, oracle *limitertest.Oracle, limit algorithms.Limit, told map[string]algorithms.Decision,
) {
	t.Helper()

	replayed, denied := 0, 0
	for {
		line, err := history.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"the end"`) {
			break
		}
		at, cost, ok := scriptCall(t, line)
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

	if replayed != len(told) || denied == 0 || denied == replayed {
		t.Errorf("%d of %d calls replayed, %d denied: want all, and some of each", replayed, len(told), denied)
	}
}

// quoted is an argument in a line of MONITOR. Its escapes are among those of Go.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// scriptCall reads the instant and the cost from a line of MONITOR:
// +1767355200.5 [0 127.0.0.1:40000] "evalsha" "hash" "keys" "key"... "doubles of pair.lua"
func scriptCall(t *testing.T, line string) (at string, cost int64, ok bool) {
	t.Helper()
	if !strings.Contains(line, `] "eval`) {
		return "", 0, false
	}
	args := quoted.FindAllString(line, -1)
	for i := range args {
		var err error
		if args[i], err = strconv.Unquote(args[i]); err != nil {
			t.Fatalf("%s: %v", args[i], err)
		}
	}

	keys, err := strconv.Atoi(args[2])
	if err != nil {
		return "", 0, false
	}
	number := func(i int) int64 {
		return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(args[3+keys][8*i:]))))
	}
	return strconv.FormatInt(number(0), 10), number(2), true
}
