package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// servedPolicies never deny, so that all decisions cost the same.
const servedPolicies = `version: 1
name: served
policies:
  - name: per-tenant
    when: request.method == "POST" && request.route == "/orders/{id}"
    key: request.headers[?"x-tenant"].orValue("none")
    authoritative: { algorithm: fixed_window, limit: 1000000000, window: 1h }
    candidate: { algorithm: token_bucket, limit: 1000000000, window: 1h, burst: 100000000 }
`

// servedOrder is the request of the benchmark, as a service describes it.
const servedOrder = `{"method":"POST","path":"/orders/7","route":"/orders/{id}","host":"shop.example",` +
	`"headers":{"x-tenant":"acme","user-agent":"curl/8.5.0"},"ip":"192.0.2.1"}`

// questionsOf are the questions of the benchmark, each for a number of decisions.
func questionsOf(decisions int) map[string]string {
	batch := "[" + strings.TrimSuffix(strings.Repeat(servedOrder+",", decisions), ",") + "]"
	post := func(body string) string {
		return "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	return map[string]string{
		"check": post(servedOrder),
		"batch": post(batch),
		"nginx": "GET /v1/auth-request HTTP/1.1\r\nHost: x\r\nX-Original-Method: POST\r\nX-Original-URI: /orders/7\r\n" +
			"X-Forwarded-Host: shop.example\r\nX-Forwarded-For: 192.0.2.1\r\nX-Tenant: acme\r\nUser-Agent: curl/8.5.0\r\n\r\n",
	}
}

// BenchmarkServe measures decisions of a server with one processor that eight clients ask over a Unix socket, beside the same decision in
// this process. cpu-ns is the time of all the server's threads in the kernel and outside, which a busy machine changes
// less than the time that passes; the clients' is not in it.
func BenchmarkServe(b *testing.B) {
	const decisions = 100
	for name, question := range questionsOf(decisions) {
		b.Run(name, func(b *testing.B) {
			each := 1
			if name == "batch" {
				each = decisions
			}
			dir, socket := b.TempDir(), filepath.Join(b.TempDir(), "serve.sock")
			cmd := startServe(b, dir, socket, servedPolicies, "--route", "/orders/{id}")

			before := cpuOf(b, cmd.Process.Pid)
			b.ResetTimer()
			crowdOf(b, socket, question, (b.N+each-1)/each)
			b.StopTimer()
			b.ReportMetric(float64(cpuOf(b, cmd.Process.Pid)-before)/float64(b.N), "cpu-ns/op")
		})
	}

	b.Run("decide", benchDecide)
}

// crowdOf asks a question over and over, by eight clients.
func crowdOf(b *testing.B, socket, question string, times int) {
	b.Helper()
	const clients = 8
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			conn, err := net.Dial("unix", socket)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()

			answers := bufio.NewReader(conn)
			for range (times + i) / clients {
				io.WriteString(conn, question)
				answer, err := http.ReadResponse(answers, nil)
				if err != nil || answer.StatusCode/100 != 2 {
					b.Error(answer, err)
					return
				}
				io.Copy(io.Discard, answer.Body)
			}
		})
	}
	all.Wait()
}

// benchDecide is the decision alone, in this process.
func benchDecide(b *testing.B) {
	set, err := policies.Load("served.yaml", []byte(servedPolicies))
	if err != nil {
		b.Fatal(err)
	}
	h, err := shadow.New(shadow.Config{Policies: set})
	if err == nil {
		err = h.Start(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(context.Background())

	headers := http.Header{"X-Tenant": {"acme"}, "User-Agent": {"curl/8.5.0"}}
	var r policies.Request
	before := cpuOf(b, os.Getpid())
	for b.Loop() {
		r.Reset()
		r.Method, r.Path, r.Route, r.Host, r.IP, r.Headers = "POST", "/orders/7", "/orders/{id}", "shop.example", "192.0.2.1", headers
		if !h.Decide(b.Context(), &r).Allowed {
			b.Fatal("denied")
		}
	}
	b.ReportMetric(float64(cpuOf(b, os.Getpid())-before)/float64(b.N), "cpu-ns/op")
}

// cpuOf returns the processor time of a process so far, in the kernel's ticks of 10 ms.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip(err) // no Linux, or no CI: a benchmark
	}

	// The name of the program stands in brackets and may have spaces. utime and stime are 12th and 13th after it.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
