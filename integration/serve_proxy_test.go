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

// behindProxy allows two orders of an address in an hour.
const behindProxy = `version: 1
name: behind-proxy
policies:
  - name: orders
    when: request.method == "POST" && request.route == "/api/orders/{id}" && request.host == "shop.example"
    key: [request.ip, 'request.headers[?"x-tenant"].orValue("none")']
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 2h }
`

// proxy is a program in front of a service, with its file of examples/serve.
type proxy struct {
	program, file string
	// words are what the test replaces in the file: ADDR is the proxy's address, APP the service's.
	words []string
	// command runs the program with the text of its file, in a folder of its own.
	command func(t *testing.T, program, dir, text string) *exec.Cmd
}

// limited is a service behind a real proxy that asks a real server.
type limited struct {
	addr   string
	serve  *exec.Cmd
	served atomic.Int64 // requests that have reached the service
}

// behind starts the service. Words replace others in the shipped file.
func (p *proxy) behind(t *testing.T, words ...string) *limited {
	t.Helper()
	program := requireProgram(t, p.program, "the configuration of examples/serve is tested with it")
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
	l.serve = startServe(t, dir, socket, behindProxy, "--route", "/api/orders/{id}")
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	l.addr = net.JoinHostPort("127.0.0.1", port)

	shipped, err := os.ReadFile("../examples/serve/" + p.file)
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("ADDR", l.addr, "PORT", port)
	words = append(words, "/run/shadowlimit/serve.sock", socket, "127.0.0.1:8080", app.Listener.Addr().String())
	for i, word := range p.words {
		words = append(words, word)
		if i%2 == 1 {
			words[len(words)-1] = here.Replace(word)
		}
	}
	for i := 0; i < len(words); i += 2 {
		if !strings.Contains(string(shipped), words[i]) {
			t.Fatalf("the shipped file has no %q", words[i])
		}
	}
	runPeer(t, l.addr, p.command(t, program, dir, strings.NewReplacer(words...).Replace(string(shipped))))
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

func order(target, tenant string, more ...string) string {
	return "POST " + target + " HTTP/1.1\nHost: shop.example\nX-Tenant: " + tenant + "\nConnection: close\nContent-Length: 4\n" +
		strings.Join(more, "") + "\nbody"
}

// times are the seconds in response fields, which pass while a test runs.
var times = regexp.MustCompile(`(t=|Retry-After: )[0-9]+`)

// pretended are orders by which a client might leave its limit: other spellings of the path, and headers of a proxy.
var pretended = []struct{ target, header string }{
	{"/api/orders/8", ""}, {"//api//orders/8", ""}, {"/x/../api/./orders/8", ""}, {"/%61pi/orders/8", ""}, {"/api/orders/a%2Fb", ""},
	{"http://shop.example/api/orders/8", ""},
	{"/api/orders/8", "X-Forwarded-For: 198.51.100.1\n"},
	{"/api/orders/8", "X-Original-URI: /x\nX-Original-Method: GET\n"},
	{"/api/orders/8", "X_Original_URI: /x\nX-Forwarded-Host: x\n"},
	{"/api/orders/8", "X-Forwarded-Method: GET\nX-Forwarded-Uri: /x\n"},
	{"/api/orders/8", "Shadowlimit-Token: x\nAuthorization: Bearer x\n"},
}
