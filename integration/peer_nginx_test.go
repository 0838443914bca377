package integration

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

// nginxConf has a place for each limit of examples/models/nginx.yaml. The files are served from the disk, because "return"
// answers before limits are asked.
const nginxConf = `daemon off;
master_process off;
` + nginxHTTP + `  log_format decided '$msec $request_time $limit_req_status $uri $arg_user';
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
	long(t)
	t.Parallel()
	ask := func() []peerDecision {
		dir := t.TempDir()
		crowd(t, startNginx(t, dir), peerLoad{paths: nginxPaths, perSecond: 440, seconds: 5})
		return nginxDecisions(t, filepath.Join(dir, "access.log"))
	}
	peer := peerTest{model: "nginx", ask: ask, paths: nginxPaths}
	peer.run(t)
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

	sortDecisions(decisions)
	return decisions
}
