package integration

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// The rates here are low: a log has milliseconds, so at R admissions a second of a key some R of a thousand decisions hang on one.

// importedNginx limits without delays, so that its log has each request at the instant of its decision. The files are served from
// the disk, because "return" answers before limits are asked.
const importedNginx = `daemon off;
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
  log_format json escape=json '{"msec":$msec,"status":$status,"request_method":"$request_method","request_uri":"$request_uri",'
                              '"http_host":"$http_host","remote_addr":"$remote_addr"}';
  access_log %[1]s/access.log json;
  keepalive_requests 1000000;
  limit_req_status 429;
  limit_req_zone $arg_user zone=each:1m rate=3r/s;
  limit_req_zone $arg_user zone=minutes:1m rate=100r/m;
  limit_req_zone $binary_remote_addr zone=address:1m rate=2r/s;
  limit_req_zone $arg_user zone=fast:1m rate=4r/s;
  limit_req_zone $arg_user zone=slow:1m rate=2r/s;
  server {
    listen %[2]s;
    root %[1]s;
    limit_req zone=each burst=10 nodelay;
    location = /minutes { limit_req zone=minutes burst=5 nodelay; }
    location = /address { limit_req zone=address burst=10 nodelay; }
    location = /zones { limit_req zone=fast burst=10 nodelay; limit_req zone=slow burst=20 nodelay; }
  }
}
`

// A log of nginx, replayed with the policies that its own configuration becomes, has the decisions of these policies.
func TestImportedNginxDecidesAsItsLog(t *testing.T) {
	t.Parallel()
	mustAgree(t, askImportedNginx, "nginx", "each", "minutes", "address", "fast-slow")
}

// askImportedNginx starts one, and returns its configuration and its log of a crowd.
func askImportedNginx(t *testing.T) (conf, log string) {
	t.Helper()
	program := requireProgram(t, "nginx", "its log is compared with its imported configuration")
	dir, addr := t.TempDir(), freeAddr(t)
	paths := []string{"/each", "/minutes", "/address", "/zones"}
	for _, name := range paths {
		write(t, filepath.Join(dir, name), "ok")
	}
	conf = filepath.Join(dir, "nginx.conf")
	write(t, conf, fmt.Sprintf(importedNginx, dir, addr))

	runPeer(t, addr, exec.Command(program, "-p", dir, "-c", conf, "-e", filepath.Join(dir, "start.log")))
	crowd(t, addr, peerLoad{paths: paths, users: even, perSecond: 352, seconds: 6})
	return conf, filepath.Join(dir, "access.log")
}

// importedHAProxy logs the milliseconds of the clock by which it judges, taken with the decision. Limits of one key with denials between
// them are a group, of which each path here asks some.
const importedHAProxy = `global
  nbthread 1
  log stdout format raw local0
defaults
  mode http
  timeout client 30s
  timeout server 30s
  timeout connect 5s
frontend judge
  bind %[1]s
  log global
  log-format '{"t_ms":%%[var(txn.at)],"status":%%ST,"method":"%%HM","uri":"%%HU","ip":"%%ci"}'
  http-request set-var(txn.at) date(0,ms)
  http-request track-sc0 url_param(user) table ten if { path /ten }
  http-request deny deny_status 429 if { path /ten } { sc_http_req_rate(0,ten) gt 20 }
  http-request track-sc0 url_param(user) table one if { path /one }
  http-request deny deny_status 429 if { path /one } { sc_http_req_rate(0,one) ge 6 }
  http-request deny deny_status 429 if { path /passed } { src_http_req_rate(passed) ge 20 }
  http-request track-sc0 src table passed if { path /passed }
  http-request track-sc0 url_param(user) table short if { path /both }
  http-request deny deny_status 429 if { path /both } { sc_http_req_rate(0,short) gt 5 }
  http-request track-sc1 url_param(user) table long if { path /both }
  http-request deny deny_status 429 if { path /both } { sc_http_req_rate(1,long) gt 20 }
  http-request return status 200
backend ten
  stick-table type string len 32 size 1k expire 1m store http_req_rate(10s)
backend one
  stick-table type string len 32 size 1k expire 1m store http_req_rate(1s)
backend passed
  stick-table type ip size 1k expire 1m store http_req_rate(10s)
backend short
  stick-table type string len 32 size 1k expire 1m store http_req_rate(1s)
backend long
  stick-table type string len 32 size 1k expire 1m store http_req_rate(10s)
`

// A log of HAProxy, replayed with the policies that its own configuration becomes, has the decisions of these policies.
func TestImportedHAProxyDecidesAsItsLog(t *testing.T) {
	long(t)
	t.Parallel()
	mustAgree(t, askImportedHAProxy, "haproxy", "ten-one-short-long", "passed")
}

// askImportedHAProxy starts one, and returns its configuration and its log of a crowd.
func askImportedHAProxy(t *testing.T) (conf, log string) {
	t.Helper()
	program := requireProgram(t, "haproxy", "its log is compared with its imported configuration")
	dir, addr := t.TempDir(), freeAddr(t)
	conf, log = filepath.Join(dir, "haproxy.cfg"), filepath.Join(dir, "log")
	write(t, conf, fmt.Sprintf(importedHAProxy, addr))
	output, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { output.Close() })

	cmd := exec.Command(program, "-db", "-f", conf)
	cmd.Stdout = output
	runPeer(t, addr, cmd)
	crowd(t, addr, peerLoad{paths: []string{"/ten", "/one", "/passed", "/both"}, users: uneven, perSecond: 160, seconds: 12})
	return conf, log
}

// untrusted is a pause after which HAProxy may distrust its clock: it then guesses the time, and its log does not say what.
const untrusted = 700 * time.Millisecond

// putInOrder writes a log again in the order in which its server decided, as sortDecisions has it: requests of one millisecond are logged
// as their answers are sent. It ends before an untrusted pause. Lines that are no requests go.
func putInOrder(t *testing.T, log string) {
	t.Helper()
	file, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	type entry struct {
		Status int         `json:"status"`
		Nginx  json.Number `json:"msec"`
		Number json.Number `json:"t_ms"`
		at     time.Time
		text   string
	}
	var entries []entry
	for lines := bufio.NewScanner(file); lines.Scan(); {
		e := entry{text: lines.Text()}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Status > 0 && e.Nginx+e.Number != "" {
			e.at = milliseconds(t, string(e.Nginx+e.Number))
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.Status, b.Status)) })

	var kept strings.Builder
	for i, e := range entries {
		if i > 0 && e.at.Sub(entries[i-1].at) > untrusted {
			t.Logf("the server stood still after %d of %d requests", i, len(entries))
			break
		}
		fmt.Fprintln(&kept, e.text)
	}
	write(t, log, kept.String())
}

func freeAddr(t *testing.T) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

var authoritativeLine = regexp.MustCompile(`(?m)^    authoritative: \{ (.*) \}$`)

// importTwin imports a configuration by the program. Each policy has a twin of its limiter for a candidate, because replay compares two.
func importTwin(t *testing.T, peer, conf string) (file string) {
	t.Helper()
	imported := string(runCommand(t, "import", peer, conf))
	text := authoritativeLine.ReplaceAllString(imported, "$0\n    candidate: { id: twin, $1 }")
	file = filepath.Join(t.TempDir(), "policies.yaml")
	write(t, file, text)
	return file
}

// mustAgree wants what docs/import.md says: a peer's log and the policies that its configuration becomes agree in 99 % of the requests.
// A machine without time for the peer lets decisions slip within their milliseconds, so up to three crowds ask. A wrong model
// differs from each of them.
func mustAgree(t *testing.T, ask func(*testing.T) (conf, log string), peer string, names ...string) {
	t.Helper()
	best := 0.0
	for tries := 0; best < 0.99 && tries < 3; tries++ {
		conf, log := ask(t)
		putInOrder(t, log)
		best = max(best, agreementOf(t, importTwin(t, peer, conf), log, names))
	}
	if best < 0.99 {
		t.Errorf("the policies agree with %.2f %% of the log, want 99 %%", 100*best)
	}
}

// agreementOf replays a log for each policy, and returns the share of all requests in which they and the log agree. A policy that did
// not decide ten requests of each kind agrees with nothing.
func agreementOf(t *testing.T, config, log string, names []string) float64 {
	t.Helper()
	var agree, requests int64
	for _, name := range names {
		var report replay.Report
		out := runCommand(t, "replay", "--config", config, "--policy", name, "--observed", "response.status == 429", "-o", "json", log)
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatal(err)
		}

		p, seen := &report.Policies[0], report.Policies[0].Observed
		t.Logf("%s allows %d and denies %d; the log agrees with %d of %d, the policy alone denies %d and allows %d", name,
			p.AgreeAllow, p.AgreeDeny, seen.Agree, seen.Requests, seen.ModelDenies, seen.ModelAllows)
		requests += seen.Requests
		if p.AgreeAllow >= 10 && p.AgreeDeny >= 10 {
			agree += seen.Agree
		}
	}
	t.Logf("together %d of %d, %.2f %%", agree, requests, 100*float64(agree)/float64(requests))
	return float64(agree) / float64(requests)
}

// runCommand runs the program, and returns what it writes to standard output.
func runCommand(t *testing.T, args ...string) []byte {
	t.Helper()
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	var talk strings.Builder
	cmd := exec.Command(path, args...)
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", args, err, talk.String())
	}
	return out
}
