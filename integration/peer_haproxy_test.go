package integration

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

// haproxyConf has a place for each limit of examples/models/haproxy.yaml. Its log line has the milliseconds of the clock by which
// HAProxy judges, taken with the decision.
const haproxyConf = `global
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
  log-format "decided %%[var(txn.at)] %%ST %%HP %%[var(txn.key)]"
  http-request set-var(txn.at) date(0,ms)
  http-request set-var(txn.key) url_param(user)
  http-request track-sc0 var(txn.key) table ten if { path /counted }
  http-request deny deny_status 429 if { path /counted } { sc0_http_req_rate(ten) gt 20 }
  http-request deny deny_status 429 if { path /passed } { var(txn.key),table_http_req_rate(tenpassed) ge 20 }
  http-request track-sc0 var(txn.key) table tenpassed if { path /passed }
  http-request track-sc0 var(txn.key) table one if { path /counted-second }
  http-request deny deny_status 429 if { path /counted-second } { sc0_http_req_rate(one) gt 5 }
  http-request deny deny_status 429 if { path /passed-second } { var(txn.key),table_http_req_rate(onepassed) ge 5 }
  http-request track-sc0 var(txn.key) table onepassed if { path /passed-second }
  http-request return status 200
backend ten
  stick-table type string len 32 size 1k expire 1m store http_req_rate(10s)
backend tenpassed
  stick-table type string len 32 size 1k expire 1m store http_req_rate(10s)
backend one
  stick-table type string len 32 size 1k expire 1m store http_req_rate(1s)
backend onepassed
  stick-table type string len 32 size 1k expire 1m store http_req_rate(1s)
`

var haproxyPaths = []string{"/counted", "/passed", "/counted-second", "/passed-second"}

// haproxyRules are what HAProxy decides on these paths, by its source.
func haproxyRules(even bool) map[string]peerRule {
	return map[string]peerRule{
		"/counted":        haproxyRule(20, 10_000, true, even),
		"/passed":         haproxyRule(20, 10_000, false, even),
		"/counted-second": haproxyRule(5, 1000, true, even),
		"/passed-second":  haproxyRule(5, 1000, false, even),
	}
}

// A real HAProxy under load decides as its model does.
func TestModelOfHAProxy(t *testing.T) {
	long(t)
	t.Parallel()
	peer := peerTest{
		model: "haproxy", paths: haproxyPaths, inferred: haproxyPaths,
		ask:   func() []peerDecision { return untilStalled(askHAProxy(t)) },
		rules: func() map[string]peerRule { return haproxyRules(true) },
	}
	peer.run(t)
}

// untilStalled returns the decisions before HAProxy had no processor for so long that it may distrust its clock, which it does
// after a second: it then guesses the time, and its log does not say what.
func untilStalled(decisions []peerDecision) []peerDecision {
	for i := 1; i < len(decisions); i++ {
		if decisions[i].at.Sub(decisions[i-1].at) > 700*time.Millisecond {
			return decisions[:i]
		}
	}
	return decisions
}

// askHAProxy starts one, and returns what it decides under load.
func askHAProxy(t *testing.T) []peerDecision {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	addr := startHAProxy(t, log)

	// Ten seconds are a long window: the crowd meets three of them.
	var crowds sync.WaitGroup
	crowds.Go(func() { crowd(t, addr, peerLoad{paths: haproxyPaths[:2], users: uneven, perSecond: 44, seconds: 24}) })
	crowds.Go(func() { crowd(t, addr, peerLoad{paths: haproxyPaths[2:], users: uneven, perSecond: 200, seconds: 6}) })
	crowds.Wait()
	return haproxyDecisions(t, log)
}

// startHAProxy starts one process that has all limits.
func startHAProxy(t *testing.T, log string) (addr string) {
	t.Helper()
	path := requireProgram(t, "haproxy", "its decisions are compared with those of its model")
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { output.Close() })

	addr = net.JoinHostPort("127.0.0.1", port)
	conf := log + ".cfg"
	write(t, conf, fmt.Sprintf(haproxyConf, addr))
	cmd := exec.Command(path, "-db", "-f", conf)
	cmd.Stdout = output
	runPeer(t, addr, cmd)
	return addr
}

// haproxyDecisions reads what HAProxy decided, in the order in which it decided.
func haproxyDecisions(t *testing.T, path string) (decisions []peerDecision) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	// The connection that finds out whether HAProxy accepts any asks for nothing.
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 5 || fields[0] != "decided" || fields[4] == "-" {
			continue
		}
		decided := peerDecision{at: milliseconds(t, fields[1]), allowed: fields[2] == "200"}
		decided.request = policies.Request{Method: "GET", Path: fields[3], User: fields[4]}
		decisions = append(decisions, decided)
	}

	sortDecisions(decisions)
	return decisions
}

// haproxyRule is src/freq_ctr.c and include/haproxy/freq_ctr.h, in whole milliseconds. Where the lowest bit of a window's
// instant is a lock, as in HAProxy 2.6, windows begin at even ones. Counted: "track-sc0", then
// "deny if { sc_http_req_rate(0) gt N }". Passed: "deny if { table_http_req_rate ge N }", then "track-sc0".
func haproxyRule(limit, period int64, counted, even bool) peerRule {
	counters := map[string]*freqCounter{}
	return func(r *policies.Request, at time.Time) bool {
		c, now := counters[r.User], at.UnixMilli()
		if c == nil {
			c = &freqCounter{even: even}
			counters[r.User] = c
		}

		if counted {
			c.update(now, period)
			return c.read(now, period) <= limit
		}
		if c.read(now, period) >= limit {
			return false
		}
		c.update(now, period)
		return true
	}
}

// freqCounter is struct freq_ctr.
type freqCounter struct {
	tick, curr, prev int64
	even             bool
}

// update is update_freq_ctr_period: windows follow each other, until one begins that finds no request within two.
func (c *freqCounter) update(now, period int64) {
	if now-c.tick < period {
		c.curr++
		return
	}

	c.prev, c.curr = c.curr, 1
	c.tick += period
	if now-c.tick >= period {
		c.prev, c.tick = 0, now
	}
	if c.even {
		c.tick &^= 1
	}
}

// read is read_freq_ctr_period, with the rate rounded down.
func (c *freqCounter) read(now, period int64) int64 {
	prev, curr, remain := c.prev, c.curr, c.tick+period-now
	if remain < 0 {
		remain += period
		prev, curr = curr, 0
		if remain < 0 {
			prev = 0
		}
	}
	if curr == 0 && prev <= 1 {
		return prev
	}
	return (prev*remain + curr*period) / period
}
