package integration

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// runPeer runs a server until the end of the test, and returns when it accepts connections.
func runPeer(t *testing.T, addr string, cmd *exec.Cmd) {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	if cmd.Stdout == nil {
		cmd.Stdout = &said
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tries := rate.NewLimiter(rate.Every(10*time.Millisecond), 1)
	for tries.Wait(ctx) == nil {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return
		}
	}
	t.Fatalf("%s accepts no connection: %s", cmd.Path, said.String())
}

// peerLoad is what a crowd of eight users asks of a server, at random instants.
type peerLoad struct {
	paths              []string
	perSecond, seconds int
}

// crowd asks as the load says. It does not wait for answers, because some of them are delayed.
func crowd(t *testing.T, addr string, load peerLoad) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	defer client.CloseIdleConnections()

	rng := rand.New(rand.NewPCG(1, 1))
	pace := rate.NewLimiter(rate.Limit(load.perSecond), 3)
	var asking sync.WaitGroup
	for range load.seconds * load.perSecond {
		if err := pace.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		url := fmt.Sprintf("http://%s%s?user=u%d", addr, load.paths[rng.IntN(len(load.paths))], rng.IntN(8))
		asking.Go(func() { knock(t, client, url) })
	}

	// On a slow machine the crowd may stay below the limits. A volley does not.
	for _, path := range load.paths {
		for range 40 {
			asking.Go(func() { knock(t, client, fmt.Sprintf("http://%s%s?user=volley", addr, path)) })
		}
	}
	asking.Wait()
}

// knock asks once. Its answer is in the server's log.
func knock(t *testing.T, client *http.Client, url string) {
	response, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

// sortDecisions puts a log in the order in which its server decided. A server may log a refused request before an admitted one that
// it judged in the same millisecond. The refused one came after it: a limit that refuses does not admit the next request of that
// millisecond.
func sortDecisions(decisions []peerDecision) {
	slices.SortStableFunc(decisions, func(a, b peerDecision) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(refusals(a), refusals(b)))
	})
}

// refusals is 1 for a refused request and 0 for an admitted one.
func refusals(d peerDecision) int {
	if d.allowed {
		return 0
	}
	return 1
}

// milliseconds reads seconds with three decimals exactly.
func milliseconds(t *testing.T, text string) time.Time {
	t.Helper()
	ms, err := strconv.ParseInt(strings.Replace(text, ".", "", 1), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMilli(ms)
}
