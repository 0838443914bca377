package integration

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// authority signs certificates of servers and clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// sign returns a certificate for 127.0.0.1 that ends at an instant.
func (a authority) sign(t *testing.T, ends time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: ends,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secured stands in front of a server and speaks TLS.
func secured(t *testing.T, server string, cert tls.Certificate) (addr string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	t.Cleanup(func() { listener.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			wg.Go(func() { pump(upstream, client, func([]byte) bool { return true }); client.Close() })
			wg.Go(func() { pump(client, upstream, func([]byte) bool { return true }); upstream.Close() })
		}
	})
	return listener.Addr().String()
}

// A Redis whose certificate is not to be trusted gets nothing, and the log names the
// certificate.
func TestWrongCertificateOfRedis(t *testing.T) {
	t.Parallel()
	trusted, stranger := newAuthority(t, "trusted"), newAuthority(t, "stranger")
	roots := x509.NewCertPool()
	roots.AddCert(trusted.cert)
	server := privateServer(t)
	watch := redis.NewClient(&redis.Options{Addr: server})
	t.Cleanup(func() { watch.Close() })

	for _, tt := range []struct {
		name, logged string
		cert         tls.Certificate
	}{
		{"good", "", trusted.sign(t, time.Now().Add(time.Hour))},
		{"expired", "expired", trusted.sign(t, time.Now().Add(-time.Hour))},
		{"of another authority", "unknown authority", stranger.sign(t, time.Now().Add(time.Hour))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			options := &redis.UniversalOptions{Addrs: []string{secured(t, server, tt.cert)}, TLSConfig: &tls.Config{RootCAs: roots}}
			client := redis.NewUniversalClient(lua.Tune(options, time.Second))
			t.Cleanup(func() { client.Close() })

			var log lockedBuffer
			before := executions(t, watch)
			h, err := shadow.New(shadow.Config{Policies: sameTwice(t, 10), Redis: client, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err == nil {
				err = h.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close(context.Background()) // fails where nothing can be written

			good := tt.logged == ""
			for range 10 {
				if d := h.Decide(t.Context(), &policies.Request{User: "alice"}); d.Allowed != good || d.Fallback == good {
					t.Errorf("%+v", d)
				}
			}
			_ = h.Sync(t.Context())
			if ran := executions(t, watch) - before; ran > 0 != good {
				t.Errorf("%d scripts have run", ran)
			}
			if !strings.Contains(log.String(), tt.logged) {
				t.Errorf("the log does not say %q:\n%s", tt.logged, log.String())
			}

			// The command trusts the authorities of the system, and so none of these.
			found := doctor(t, "rediss://"+options.Addrs[0], namespace())
			if f := found.find(t, "connection"); f.Level != "problem" || !strings.Contains(f.Message, "certificate") {
				t.Errorf("doctor: %+v", f)
			}
		})
	}
}

// lockedBuffer is a buffer that goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
