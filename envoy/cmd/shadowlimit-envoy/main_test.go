package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const file = `
version: 1
name: edge
policies:
  - name: per-user
    when: request.route == "user"
    key: request.descriptors["user"]
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// running starts the program, and returns the addresses that it prints: for Envoy, and of the pages.
func running(t *testing.T, args ...string) (address, pages string, end func() int) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // where the last stages lie
	t.Setenv("SHADOWLIMIT_REDIS", "")
	ctx, interrupt := context.WithCancel(t.Context())
	talk, in := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, args, io.Discard, in)
		in.Close()
	}()

	lines := bufio.NewReader(talk)
	for pages == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("it serves nothing: %s", line)
		}
		if _, rest, found := strings.Cut(line, "limiting edge on "); found {
			address = strings.TrimSpace(rest)
		}
		if _, rest, found := strings.Cut(line, "metrics and status on "); found {
			pages = strings.TrimSpace(rest)
		}
	}
	go io.Copy(io.Discard, lines) // else it would wait for its reader

	return address, pages, func() int {
		interrupt()
		return <-done
	}
}

// dial connects to the program as Envoy does.
func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	if strings.HasPrefix(address, "/") {
		address = "unix:" + address
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func ask(ctx context.Context, conn *grpc.ClientConn) (rls.RateLimitResponse_Code, error) {
	d := &ratelimitv3.RateLimitDescriptor{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}}}
	answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx,
		&rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimitv3.RateLimitDescriptor{d}})
	return answer.GetOverallCode(), err
}

// The program limits, is healthy, shows its metrics, and ends without an error.
func TestProgram(t *testing.T) {
	address, pages, end := running(t, "--config", write(t, "policies.yaml", file), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	conn := dial(t, address)
	for i, want := range []rls.RateLimitResponse_Code{1, 1, 2} {
		if got, err := ask(t.Context(), conn); got != want || err != nil {
			t.Errorf("request %d: %v %v, want %v", i, got, err, want)
		}
	}

	for _, service := range []string{"", rls.RateLimitService_ServiceDesc.ServiceName} {
		answer, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || answer.Status != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v %v", service, answer, err)
		}
	}

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + pages + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	response.Body.Close()
	if !strings.Contains(string(text), `shadowlimit_decisions_total`) {
		t.Errorf("metrics: %s", text)
	}

	if status := end(); status != exitOK {
		t.Errorf("interrupted, it ends with status %d", status)
	}
	if _, err := ask(t.Context(), conn); status.Code(err) != codes.Unavailable {
		t.Errorf("after the end: %v", err)
	}
}

// Questions over TCP must bring the token. Health is no secret, and a Unix socket has its permissions.
func TestHelpHas80Columns(t *testing.T) {
	var out strings.Builder
	if status := run(t.Context(), []string{"--help"}, &out, io.Discard); status != exitOK {
		t.Errorf("status %d", status)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestToken(t *testing.T) {
	const token = "0123456789abcdefghij"
	socket := filepath.Join(t.TempDir(), "s")
	policies, secret := write(t, "policies.yaml", file), write(t, "token", token+"\n")

	for listen, open := range map[string]bool{"127.0.0.1:0": false, "unix:" + socket: true} {
		address, _, end := running(t, "--config", policies, "--listen", listen, "--http", "127.0.0.1:0", "--token-file", secret)
		conn := dial(t, address)
		for given, knows := range map[string]bool{"": false, "Bearer x": false, "Bearer " + token: true} {
			want := codes.Unauthenticated
			if knows || open {
				want = codes.OK
			}
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", given)
			if _, err := ask(ctx, conn); status.Code(err) != want {
				t.Errorf("%s with %q: %v, want %v", listen, given, err, want)
			}
		}
		if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
			t.Errorf("%s: health: %v", listen, err)
		}

		conn.Close()
		if status := end(); status != exitOK {
			t.Errorf("%s: it ends with status %d", listen, status)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Setenv("SHADOWLIMIT_REDIS", "")
	t.Setenv(tokenVariable, "")
	good, short := write(t, "policies.yaml", file), write(t, "short", "s3cret")
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"", exitUsage, "--config is needed"},
		{"--config " + good + " x", exitUsage, "no arguments"},
		{"--config missing.yaml", exitFailure, "no such file"},
		{"--config " + write(t, "broken.yaml", "version: 2"), exitFailure, "version"},
		{"--config " + good + " --fields x", exitUsage, "the styles are draft-06"},
		{"--config " + good + " --retry-jitter NaN", exitUsage, "want 0 to 1"},
		{"--config " + good + " --listen 0.0.0.0:0", exitUsage, "so it needs a token"},
		{"--config " + good + " --http 0.0.0.0:0", exitUsage, "--http 0.0.0.0:0"},
		{"--config " + good + " --listen nonsense", exitFailure, "--listen"},
		{"--config " + good + " --token-file " + short, exitUsage, "20 to 4096 characters"},
		{"--config " + good + " --tls-cert x", exitUsage, "must be given together"},
		{"--config " + good + " --tls-cert x --tls-key y", exitFailure, "--tls-cert and --tls-key"},
		{"--config " + good + " --redis http://s3cret", exitUsage, "--redis"},
		{"--unknown", exitUsage, "see --help"},
	} {
		args := strings.Fields(tt.args)
		if len(args) > 0 && !strings.Contains(tt.args, "--listen") {
			args = append([]string{"--listen", "127.0.0.1:0"}, args...)
		}
		if len(args) > 0 && !strings.Contains(tt.args, "--http") {
			args = append([]string{"--http", "127.0.0.1:0"}, args...)
		}

		var out, talk bytes.Buffer
		status := run(t.Context(), args, &out, &talk)
		if text := out.String() + talk.String(); status != tt.status || !strings.Contains(text, tt.want) || strings.Contains(text, "s3cret") {
			t.Errorf("%s: %d %s, want %d and %s", tt.args, status, text, tt.status, tt.want)
		}
	}
}
