package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nginxHTTP begins the part of HTTP of an nginx that writes to one folder, %[1]s, and nowhere else.
const nginxHTTP = `pid %[1]s/pid;
error_log %[1]s/error.log emerg;
events { worker_connections 1024; }
http {
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
`

// nginxAround is what the shipped file is included in.
const nginxAround = `daemon off;
master_process off;
` + nginxHTTP + `  access_log off;
  include %[1]s/shadowlimit.conf;
}
`

// nginx is the proxy of examples/serve/nginx.conf.
var nginx = proxy{
	program: "nginx", file: "nginx.conf", words: []string{"listen 80;", "listen ADDR;"},
	command: func(t *testing.T, program, dir, text string) *exec.Cmd {
		write(t, filepath.Join(dir, "shadowlimit.conf"), text)
		conf := filepath.Join(dir, "nginx.conf")
		write(t, conf, fmt.Sprintf(nginxAround, dir))
		return exec.Command(program, "-p", dir, "-c", conf, "-e", filepath.Join(dir, "start.log"))
	},
}

// A client behind nginx has its orders, is told its limit, and is denied by 429 before the service is asked.
func TestServeBehindNginx(t *testing.T) {
	t.Parallel()
	l := nginx.behind(t)
	const policy = `Ratelimit-Policy: "orders";q=2;w=3600; `

	for i, want := range []struct {
		status       int
		fields, body string
	}{
		{200, policy + `Ratelimit: "orders";r=1;t=S; `, "app: POST /api/orders/7?x=1 body"},
		{200, policy + `Ratelimit: "orders";r=0;t=S; `, "app: POST /api/orders/7?x=1 body"},
		{429, policy + `Ratelimit: "orders";r=0;t=S; Retry-After: S; `, "too many requests\n"},
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

	// A 403 of the service is its own, and what no policy matches has no fields.
	for request, want := range map[string]int{
		"GET /api/private HTTP/1.1\nHost: shop.example\nConnection: close\n\n": 403,
		"GET /api/items HTTP/1.1\nHost: shop.example\nConnection: close\n\n":   200,
		"GET /api/items HTTP/1.0\n\n":                                          200,
	} {
		if status, fields, _ := l.send(t, request); status != want || fields != "" {
			t.Errorf("%.20s: %d %s, want %d", request, status, fields, want)
		}
	}
}

// A client cannot leave its limit by another spelling of the path, or by headers of a proxy.
func TestClientsOfNginxCannotPretend(t *testing.T) {
	t.Parallel()
	l := nginx.behind(t)
	for i, tt := range pretended {
		tenant := fmt.Sprint("tenant-", i)
		l.send(t, order("/api/orders/8", tenant))
		l.send(t, order("/api/orders/8", tenant))

		if status, fields, _ := l.send(t, order(tt.target, tenant, tt.header)); status != 429 {
			t.Errorf("%s with %q: %d %s", tt.target, tt.header, status, fields)
		}
	}
}

// While the server is away requests pass; a proxy that is not set up fails loudly.
func TestServeIsAwayFromNginx(t *testing.T) {
	t.Parallel()
	l := nginx.behind(t)
	for range 3 {
		l.send(t, order("/api/orders/7", "acme"))
	}
	if err := l.serve.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = l.serve.Wait()

	if status, fields, _ := l.send(t, order("/api/orders/7", "acme")); status != 200 || fields != "" {
		t.Errorf("without the server: %d %s", status, fields)
	}
}

func TestNginxThatIsNotSetUp(t *testing.T) {
	t.Parallel()
	l := nginx.behind(t, "proxy_set_header X-Original-URI    $request_uri;", "")
	if status, _, _ := l.send(t, order("/api/orders/7", "acme")); status != 500 {
		t.Errorf("%d, want 500", status)
	}
}

// A 403 of nginx itself stays one.
func TestForbiddenByNginx(t *testing.T) {
	t.Parallel()
	l := nginx.behind(t, "proxy_pass http://app;", "proxy_pass http://app; deny all;")
	if status, fields, _ := l.send(t, order("/api/orders/7", "acme")); status != 403 || strings.Contains(fields, "Retry-After") {
		t.Errorf("%d %s, want 403", status, fields)
	}
}
