package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// behindNginx allows two orders of an address in an hour.
const behindNginx = `version: 1
name: behind-nginx
policies:
  - name: orders
    when: request.method == "POST" && request.route == "/api/orders/{id}" && request.host == "shop.example"
    key: [request.ip, 'request.headers[?"x-tenant"].orValue("none")']
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 2h }
`

// nginxAround is what the shipped file is included in.
const nginxAround = `daemon off;
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
  access_log off;
  include %[1]s/shadowlimit.conf;
}
`

// limited is a service behind a real nginx that asks a real server.
type limited struct {
	addr   string
	serve  *exec.Cmd
	served atomic.Int64 // requests that have reached the service
}

// newLimited starts the service. Words replace others in the shipped file.
func newLimited(t *testing.T, words ...string) *limited {
	t.Helper()
	path := requireProgram(t, "nginx", "the configuration of examples/serve is tested with it")
	l := &limited{}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.served.Add(1)
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/api/private" {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprintf(w, "app: %s %s %s", r.Method, r.URL.RequestURI(), body)
	}))
	t.Cleanup(app.Close)

	dir, socket := t.TempDir(), filepath.Join(t.TempDir(), "serve.sock")
	l.serve = startServe(t, dir, socket, behindNginx, "--route", "/api/orders/{id}")
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	l.addr = net.JoinHostPort("127.0.0.1", port)

	shipped, err := os.ReadFile("../examples/serve/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	words = append(words, "/run/shadowlimit/serve.sock;", socket+";",
		"127.0.0.1:8080;", app.Listener.Addr().String()+";", "listen 80;", "listen "+l.addr+";")
	for i := 0; i < len(words); i += 2 {
		if !strings.Contains(string(shipped), words[i]) {
			t.Fatalf("the shipped file has no %q", words[i])
		}
	}
	write(t, filepath.Join(dir, "shadowlimit.conf"), strings.NewReplacer(words...).Replace(string(shipped)))
	conf := filepath.Join(dir, "nginx.conf")
	write(t, conf, fmt.Sprintf(nginxAround, dir))
	runPeer(t, l.addr, exec.Command(path, "-p", dir, "-c", conf, "-e", filepath.Join(dir, "start.log")))
	return l
}

// startServe starts a server on a socket, with one processor, and returns when it listens.
func startServe(t testing.TB, dir, socket, text string, more ...string) *exec.Cmd {
	t.Helper()
	program, err := command()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "policies.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(program, append([]string{"serve", "--config", file, "--listen", "unix:" + socket}, more...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SHADOWLIMIT_") })
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1", "XDG_CACHE_HOME="+dir) // where the last stages lie

	talk, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})

	lines := bufio.NewReader(talk)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("it does not listen: %s", line)
		}
		if strings.Contains(line, " on unix:") {
			go io.Copy(io.Discard, lines)
			return cmd
		}
	}
}

// send sends a request as it is written, and returns status, the fields of limits and the body.
func (l *limited) send(t *testing.T, request string) (status int, fields, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}

	fmt.Fprint(conn, strings.ReplaceAll(request, "\n", "\r\n"))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"Ratelimit-Policy", "Ratelimit", "Retry-After"} {
		if values := response.Header[name]; values != nil {
			fields += name + ": " + strings.Join(values, " | ") + "; "
		}
	}
	return response.StatusCode, fields, string(text)
}

// order is a request for an order of a tenant.
func order(target, tenant string, more ...string) string {
	return "POST " + target + " HTTP/1.1\nHost: shop.example\nX-Tenant: " + tenant + "\nConnection: close\nContent-Length: 4\n" +
		strings.Join(more, "") + "\nbody"
}

// times are the seconds in response fields, which pass while a test runs.
var times = regexp.MustCompile(`(t=|Retry-After: )[0-9]+`)

// A client behind nginx has its orders, is told its limit, and is denied by 429 before the service is asked.
func TestServeBehindNginx(t *testing.T) {
	t.Parallel()
	l := newLimited(t)
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
	l := newLimited(t)
	for i, tt := range []struct{ target, header string }{
		{"/api/orders/8", ""}, {"//api//orders/8", ""}, {"/x/../api/./orders/8", ""}, {"/%61pi/orders/8", ""}, {"/api/orders/a%2Fb", ""},
		{"http://shop.example/api/orders/8", ""},
		{"/api/orders/8", "X-Forwarded-For: 198.51.100.1\n"},
		{"/api/orders/8", "X-Original-URI: /x\nX-Original-Method: GET\n"},
		{"/api/orders/8", "X_Original_URI: /x\nX-Forwarded-Host: x\n"},
		{"/api/orders/8", "X-Forwarded-Method: GET\nX-Forwarded-Uri: /x\n"},
		{"/api/orders/8", "Shadowlimit-Token: x\nAuthorization: Bearer x\n"},
	} {
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
	l := newLimited(t)
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
	l := newLimited(t, "proxy_set_header X-Original-URI    $request_uri;", "")
	if status, _, _ := l.send(t, order("/api/orders/7", "acme")); status != 500 {
		t.Errorf("%d, want 500", status)
	}
}

// A 403 of nginx itself stays one.
func TestForbiddenByNginx(t *testing.T) {
	t.Parallel()
	l := newLimited(t, "proxy_pass http://app;", "proxy_pass http://app; deny all;")
	if status, fields, _ := l.send(t, order("/api/orders/7", "acme")); status != 403 || strings.Contains(fields, "Retry-After") {
		t.Errorf("%d %s, want 403", status, fields)
	}
}
