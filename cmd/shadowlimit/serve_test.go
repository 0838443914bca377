package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/internal/serve"
)

// serving runs the command until the test ends it, and returns the URL that it prints.
func serving(t *testing.T, args ...string) (url string, end func() int) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // where the last stages lie
	ctx, interrupt := context.WithCancel(t.Context())
	talk, in := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, append([]string{"serve"}, args...), streams{strings.NewReader(""), io.Discard, in})
		in.Close()
	}()

	lines := bufio.NewReader(talk)
	var said strings.Builder
	for url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("it serves nothing: %s", said.String())
		}
		said.WriteString(line)
		if _, rest, found := strings.Cut(line, " on "); found {
			url = strings.TrimSpace(rest)
		}
	}
	go io.Copy(io.Discard, lines) // else it would wait for its reader

	return url, func() int {
		interrupt()
		return <-done
	}
}

// ordered asks whether a user may order, and returns the answer.
func ordered(t *testing.T, client *http.Client, url, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url+"/v1/check", strings.NewReader(`{"method":"POST","path":"/orders/7","user":"ann"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// A server decides by its file on its Redis, and writes its evidence before it ends.
func TestServeIsAnInstance(t *testing.T) {
	server := miniredis.RunT(t)
	t.Setenv("SHADOWLIMIT_REDIS", "redis://"+server.Addr())
	t.Setenv("SHADOWLIMIT_NAME", "checkout")
	url, end := serving(t, "--config", write(t, "policies.yaml", []byte(fleetFile)), "--listen", "127.0.0.1:0")

	for i, want := range []string{`"remaining":1`, `"remaining":0`, `"allowed":false`} {
		if status, body := ordered(t, http.DefaultClient, url, ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("request %d: %d %s, want %s", i, status, body, want)
		}
	}

	// Nothing is lost of what was decided within the last seconds.
	http.DefaultClient.CloseIdleConnections()
	if status := end(); status != exitOK {
		t.Errorf("interrupted, it ends with status %d", status)
	}
	if _, out, talk := shell(t, "", "status", "-o", "json"); !strings.Contains(out, `"comparisons": 3`) {
		t.Errorf("the evidence: %s%s", out, talk)
	}
}

// adaptiveFile is a policy file whose candidate gives way.
const adaptiveFile = `
version: 1
name: test
policies:
  - name: p
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 40, window: 1m }
    candidate: { algorithm: fixed_window, id: next, limit: 40, window: 1m, adaptive: { signal: latency_p99 } }
`

// A server sees no handler, so it says that adaptive limits stay whole.
func TestServeWarnsOfAdaptiveLimits(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	for signal, want := range map[string]bool{"": false, ", adaptive: { signal: latency_p99 }": true} {
		file := strings.Replace(adaptiveFile, ", adaptive: { signal: latency_p99 }", signal, 1)
		talk, in := io.Pipe()
		done := make(chan string, 1)
		go func() {
			said, _ := io.ReadAll(talk)
			done <- string(said)
		}()

		args := []string{"serve", "--config", write(t, "policies.yaml", []byte(file)), "--listen", "127.0.0.1:0"}
		status := run(ctx, args, streams{strings.NewReader(""), io.Discard, in})
		in.Close()
		if said := <-done; strings.Contains(said, "no adaptive limit has a signal") != want {
			t.Errorf("%q: status %d: %s", signal, status, said)
		}
	}
}

// On an address of its own with TLS it asks for the token, which stands in a file.
func TestServeWithTLS(t *testing.T) {
	cert, key, pool := certificateFiles(t)
	token := write(t, "token", []byte("0123456789abcdefghij\n"))
	url, end := serving(t, "--config", write(t, "policies.yaml", []byte(fleetFile)), "--listen", "0.0.0.0:0",
		"--tls-cert", cert, "--tls-key", key, "--token-file", token)
	defer end()

	trusting := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting, DisableKeepAlives: true}}
	url = strings.ReplaceAll(url, "[::]", "127.0.0.1")
	for token, want := range map[string]int{"": 401, "0123456789abcdefghi": 401, "0123456789abcdefghij": 200} {
		if status, body := ordered(t, client, url, token); status != want {
			t.Errorf("with the token %q: %d %s", token, status, body)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	t.Setenv("SHADOWLIMIT_REDIS", "")
	t.Setenv(tokenVariable, "")
	good := write(t, "policies.yaml", []byte(fleetFile))
	custom := write(t, "custom.yaml", []byte(strings.Replace(fleetFile, "{ algorithm: gcra, limit: 1, window: 1h }",
		`{ limiter: mine, revision: "1" }`, 1)))
	short := write(t, "short", []byte("secret"))
	cert, key, _ := certificateFiles(t)

	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"", exitUsage, "needs --config"},
		{"--config " + good + " x", exitUsage, "no arguments"},
		{"--config missing.yaml", exitFailure, "missing.yaml: no such file"},
		{"--config " + write(t, "broken.yaml", []byte(brokenFile)), exitFailure, `no algorithm "gcrra"`},
		{"--config " + custom, exitFailure, `no limiter "mine"`},
		{"--config " + good + " --listen 0.0.0.0:0", exitUsage, "needs a token (--token-file, or SHADOWLIMIT_TOKEN) and TLS"},
		{"--config " + good + " --listen :0 --tls-cert " + cert + " --tls-key " + key, exitUsage, "needs a token"},
		{"--config " + good + " --listen nonsense", exitUsage, "such as 127.0.0.1:8080"},
		{"--config " + good + " --listen unix:/nowhere/at/all", exitFailure, "--listen"},
		{"--config " + good + " --route orders", exitUsage, "begins with /"},
		{"--config " + good + " --proxy nginx", exitUsage, "no address and no prefix"},
		{"--config " + good + " --token-file " + short, exitUsage, "20 to 4096 characters"},
		{"--config " + good + " --token-file nowhere", exitFailure, "--token-file nowhere: no such file"},
		{"--config " + good + " --tls-cert " + cert, exitUsage, "must be given together"},
		{"--config " + good + " --tls-cert " + cert + " --tls-key " + cert, exitFailure, "--tls-cert and --tls-key"},
		{"--config " + good + " --redis localhost", exitUsage, "--redis"},
	} {
		status, out, talk := shell(t, "", append([]string{"serve"}, strings.Fields(tt.args)...)...)
		if status != tt.status || !strings.Contains(talk, tt.want) || strings.Contains(out+talk, "secret") {
			t.Errorf("serve %s: %d %s%s, want %d and %s", tt.args, status, out, talk, tt.status, tt.want)
		}
	}
}

func certificateFiles(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}

	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return write(t, "cert.pem", certPEM), write(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER})), pool
}

// A renewed certificate is used within a minute. Files that do not fit each other change nothing.
func TestServeRenewsItsCertificate(t *testing.T) {
	cert, key, _ := certificateFiles(t)
	renewed, renewedKey, _ := certificateFiles(t)
	synctest.Test(t, func(t *testing.T) {
		c, err := serve.LoadCertificate(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		used := func() string {
			time.Sleep(time.Minute)
			got, err := c.Get(nil)
			if err != nil {
				t.Fatal(err)
			}
			return string(got.Certificate[0])
		}

		before := used()
		rename(t, renewed, cert)
		if used() != before {
			t.Error("a certificate without its key is used")
		}
		rename(t, renewedKey, key)
		if used() == before {
			t.Error("the renewed certificate is not used")
		}
	})
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
