package integration

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// askOver asks a server over its socket whether a request may pass, and returns the answer.
func askOver(t *testing.T, socket, body string) string {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	response, err := client.Post("http://server/v1/check", "application/json", strings.NewReader(body))
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

// Servers on one Redis have one budget for a key and are instances of one fleet, which the commands move.
func TestServersShareARedis(t *testing.T) {
	t.Parallel()
	s := server{addr: privateServer(t)}
	sockets := make([]string, 2)
	for i := range sockets {
		sockets[i] = filepath.Join(t.TempDir(), "serve.sock")
		startServe(t, t.TempDir(), sockets[i], behindProxy, "--redis", "redis://"+s.addr)
	}

	const order = `{"method":"POST","route":"/api/orders/{id}","host":"shop.example","ip":"192.0.2.1"}`
	for i, want := range []string{`"remaining":1`, `"remaining":0`, `"allowed":false`} {
		if got := askOver(t, sockets[i%2], order); !strings.Contains(got, want) {
			t.Errorf("request %d: %s, want %s", i, got, want)
		}
	}

	status, out := shell(t, s, "behind-proxy", "promote", "orders", "--to", "full", "--force", "--reason", "a drill")
	if status != 0 || !strings.Contains(out, "2/2 applied") {
		t.Fatalf("%d %s", status, out)
	}
	for _, socket := range sockets {
		if got := askOver(t, socket, order); !strings.Contains(got, `"limit":1`) {
			t.Errorf("promoted: %s, want the candidate's limit", got)
		}
	}
}
