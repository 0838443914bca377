package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// caddyAround is what Caddy is told beside the shipped file: no other port, and no certificate.
const caddyAround = `{
	admin off
	auto_https off
}
`

// caddy is the proxy of examples/serve/Caddyfile.
var caddy = proxy{
	program: "caddy", file: "Caddyfile", words: []string{"shop.example {", "http://shop.example:PORT {\n\tbind 127.0.0.1"},
	command: func(t *testing.T, program, dir, text string) *exec.Cmd {
		conf := filepath.Join(dir, "Caddyfile")
		write(t, conf, caddyAround+text)
		cmd := exec.Command(program, "run", "--config", conf, "--adapter", "caddyfile")
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		return cmd
	},
}

// A client behind Caddy is denied by 429 with its limit before the service is asked. Caddy copies no field of an admitted one.
func TestServeBehindCaddy(t *testing.T) {
	t.Parallel()
	l := caddy.behind(t)
	for i, want := range []struct {
		status       int
		fields, body string
	}{
		{200, "", "app: POST /api/orders/7?x=1 body"},
		{200, "", "app: POST /api/orders/7?x=1 body"},
		{429, `Ratelimit-Policy: "orders";q=2;w=3600; Ratelimit: "orders";r=0;t=S; Retry-After: S; `, "too many requests\n"},
	} {
		status, fields, body := l.send(t, order("/api/orders/7?x=1", "acme"))
		fields = times.ReplaceAllString(fields, "${1}S")
		if status != want.status || fields != want.fields || body != want.body {
			t.Errorf("order %d: %d %s%q, want %d %s%q", i, status, fields, body, want.status, want.fields, want.body)
		}
	}
	if n := l.served.Load(); n != 2 {
		t.Errorf("%d requests have reached the service, want 2", n)
	}

	// A 403 of the service is its own.
	if status, _, _ := l.send(t, "GET /api/private HTTP/1.1\nHost: shop.example\nConnection: close\n\n"); status != 403 {
		t.Errorf("a 403 of the service is %d", status)
	}
}

// No spelling of a path and no header of a proxy lets a client order more.
func TestClientsOfCaddyCannotPretend(t *testing.T) {
	t.Parallel()
	l := caddy.behind(t)
	for i, tt := range pretended {
		tenant := fmt.Sprint("tenant-", i)
		l.send(t, order("/api/orders/8", tenant))
		l.send(t, order("/api/orders/8", tenant))

		// A path that Caddy sends nowhere is no way round the limit.
		before := l.served.Load()
		if status, fields, body := l.send(t, order(tt.target, tenant, tt.header)); l.served.Load() != before {
			t.Errorf("%s with %q: %d %s%s", tt.target, tt.header, status, fields, body)
		}
	}
}

// While the server is away Caddy lets nothing pass.
func TestServeIsAwayFromCaddy(t *testing.T) {
	t.Parallel()
	l := caddy.behind(t)
	if err := l.serve.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = l.serve.Wait()

	if status, _, _ := l.send(t, order("/api/orders/7", "acme")); status != 502 || l.served.Load() != 0 {
		t.Errorf("without the server: %d, and %d requests reached the service", status, l.served.Load())
	}
}
