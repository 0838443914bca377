package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func TestDemoOnARedisServesInRealTime(t *testing.T) {
	server := miniredis.RunT(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	out, in := io.Pipe()
	status := make(chan int, 1)
	go func() {
		args := []string{"demo", "--serve", "--redis", "redis://" + server.Addr(), "--listen", "127.0.0.1:0"}
		status <- run(ctx, args, streams{out: in, err: io.Discard})
	}()

	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(line, "Serving on ")
	url, _, _ := strings.Cut(rest, " ")

	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		metrics := fetch(t, url+"metrics")
		if strings.Contains(metrics, "shadowlimit_decisions_total") &&
			!strings.Contains(metrics, `outcome="agree_allow",policy="per-client"} 0`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no traffic")
		}
	}

	if page := fetch(t, url+"status"); !strings.Contains(page, "per-client") {
		t.Errorf("the status page: %s", page)
	}

	stop()
	if s := <-status; s != exitOK {
		t.Error(s)
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDemoOnARedisHasNoStory(t *testing.T) {
	status, _, talk := shell(t, "", "demo", "--redis", "redis://localhost:1")
	if status != exitUsage || !strings.Contains(talk, "--serve") {
		t.Error(status, talk)
	}
}

func TestDemoNeedsTheRedisThatIsGiven(t *testing.T) {
	status, out, talk := shell(t, "", "demo", "--serve", "--redis", "redis://127.0.0.1:1")
	if status != exitFailure || out != "" || !strings.Contains(talk, "no answer from Redis: ") {
		t.Errorf("status %d, %q, %q", status, out, talk)
	}
}

// The demo tells its story, and then serves the commands of another process until it is
// interrupted. Every example of every help works there.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("the recordings of the integration tests run the demo, too")
	}
	url, story := serveDemo(t)
	t.Setenv("SHADOWLIMIT_REDIS", url)
	t.Setenv("SHADOWLIMIT_NAME", "demo")

	rest := story
	for _, want := range []string{
		"10,000 requests", "SHADOW", "wait", "CANARY 1 %", "CANARY 10 %", "CANARY 50 %", "PROMOTED", "x-plan: trial",
		"ROLLED BACK", "threshold 2 %", "rolled_back",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q after what came before it in\n%s", want, story)
		}
		rest = after
	}

	// The story is one screen, and who looks at once sees a service that is well.
	narrow(t, "demo", story)
	if _, out, _ := shell(t, "", "status"); strings.Contains(out, "NO HEARTBEATS") {
		t.Error(out)
	}

	for args, want := range map[string]string{
		"status": "rolled_back", "history per-client": "canary 10 % -> canary 50 %", "top per-client": "count",
	} {
		status, out, talk := shell(t, "", strings.Fields(args)...)
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: status %d\n%s%s", args, status, out, talk)
		}
	}

	t.Run("examples", tryExamples)
}
