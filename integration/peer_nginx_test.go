package integration

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/shadowlimit/shadowlimit/policies"
)

// nginxConf has a place for each limit of examples/models/nginx.yaml. The files are served from the disk, because "return"
// answers before limits are asked.
const nginxConf = `daemon off;
master_process off;
pid %[1]s/pid;
error_log %[1]s/error.log emerg;
events { worker_connections 1024; }
http {
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  log_format decided '$msec $request_time $limit_req_status $uri $arg_user';
  access_log %[1]s/access.log decided;
  keepalive_requests 1000000;
  limit_req_zone $arg_user zone=nodelay:1m rate=5r/s;
  limit_req_zone $arg_user zone=shaped:1m rate=5r/s;
  limit_req_zone $arg_user zone=partly:1m rate=5r/s;
  limit_req_zone $arg_user zone=observed:1m rate=5r/s;
  limit_req_zone $arg_user zone=minutes:1m rate=60r/m;
  server {
    listen %[2]s;
    root %[1]s;
    location = /nodelay { limit_req zone=nodelay burst=10 nodelay; }
    location = /shaped { limit_req zone=shaped burst=10; }
    location = /partly { limit_req zone=partly burst=10 delay=4; }
    location = /observed { limit_req zone=observed; limit_req_dry_run on; }
    location = /minutes { limit_req zone=minutes burst=5 nodelay; }
  }
}
`

var nginxPaths = []string{"/nodelay", "/shaped", "/partly", "/observed", "/minutes"}

// A real nginx under load decides as its model does.
func TestModelOfNginx(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addr := startNginx(t, dir)
	crowd(t, addr, nginxPaths)

	decisions := nginxDecisions(t, filepath.Join(dir, "access.log"))
	mustFollow(t, newPeerModel(t, "nginx").follow(t, decisions), nginxPaths)
}

// startNginx starts one process that has all limits.
func startNginx(t *testing.T, dir string) (addr string) {
	t.Helper()
	path := requireProgram(t, "nginx", "its decisions are compared with those of its model")
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}

	addr = net.JoinHostPort("127.0.0.1", port)
	for _, name := range nginxPaths {
		write(t, filepath.Join(dir, name), "ok")
	}
	conf := filepath.Join(dir, "nginx.conf")
	write(t, conf, fmt.Sprintf(nginxConf, dir, addr))
	runPeer(t, addr, exec.Command(path, "-p", dir, "-c", conf, "-e", filepath.Join(dir, "start.log")))
	return addr
}

// runPeer runs a server until the end of the test, and returns when it accepts connections.
func runPeer(t *testing.T, addr string, cmd *exec.Cmd) {
	t.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
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

// crowd asks for about twice what the limits of eight users allow, at random instants. It does not wait for answers, because
// some of them are delayed.
func crowd(t *testing.T, addr string, paths []string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	defer client.CloseIdleConnections()

	const users, perSecond, seconds = 8, 11, 5
	rng := rand.New(rand.NewPCG(1, 1))
	buckets := users * len(paths)
	pace := rate.NewLimiter(rate.Limit(perSecond*buckets), 3)
	var asking sync.WaitGroup
	for range seconds * perSecond * buckets {
		if err := pace.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		url := fmt.Sprintf("http://%s%s?user=u%d", addr, paths[rng.IntN(len(paths))], rng.IntN(users))
		asking.Go(func() { knock(t, client, url) })
	}

	// On a slow machine the crowd may stay below the limits. A volley does not.
	for _, path := range paths {
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

// nginxDecisions reads what nginx decided, in the order in which it decided.
func nginxDecisions(t *testing.T, path string) (decisions []peerDecision) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 5 {
			t.Fatalf("%q", lines.Text())
		}
		decided := peerDecision{at: milliseconds(t, fields[0]), allowed: !strings.HasPrefix(fields[2], "REJECTED")}
		decided.request = policies.Request{Method: "GET", Path: fields[3], User: fields[4]}

		// A request is logged when it is done, and was judged before its delay.
		if fields[2] == "DELAYED" {
			took := milliseconds(t, fields[1]).Sub(time.UnixMilli(0))
			decided.at = decided.at.Add(-took)
		}
		decisions = append(decisions, decided)
	}

	// A refused request is logged before a delayed one that was judged in the same millisecond. It came after it: a limit that
	// refuses does not admit the next request of that millisecond.
	slices.SortStableFunc(decisions, func(a, b peerDecision) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(refusals(a), refusals(b)))
	})
	return decisions
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
