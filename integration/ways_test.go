package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/evidence/ledgertest"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/stages/storetest"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// way is one of the ways to a Redis.
type way struct {
	url    string // for the commands, as the administrator
	client *redis.UniversalOptions
	admins []*redis.Client // of all servers that hold keys
}

// The suites of pairs, stores and ledgers, and a service that is promoted and rolled back, pass by
// every way to a Redis, with no right but those that doctor names.
func TestEveryWayToRedis(t *testing.T) {
	t.Parallel()
	long(t)
	for name, open := range map[string]func(*testing.T) *way{"Sentinel": bySentinel, "Cluster": byCluster, "TLS": byTLS} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.limitRights(t)
			w.conforms(t)

			use(t, w.dial(t), w.url, namespace())
			for _, admin := range w.admins {
				if list := denied(t, admin); len(list) > 0 {
					t.Errorf("%s refused: %v", admin.Options().Addr, list)
				}
			}
		})
	}
}

// limitRights goes on as a user that has the rights of doctor's line, for all namespaces of tests
// in place of one.
func (w *way) limitRights(t *testing.T) {
	t.Helper()

	name := namespace()
	found := doctor(t, w.url, name)
	if found.status != 0 {
		t.Fatalf("%+v", found)
	}

	line := found.rights(t)
	for i := range line {
		line[i] = strings.ReplaceAll(line[i].(string), name, "test-*")
	}
	for _, admin := range w.admins {
		if err := admin.Do(t.Context(), line...).Err(); err != nil {
			t.Fatalf("%v: %v", line, err)
		}
	}

	w.client.Username, w.client.Password = "shadowlimit", "PASSWORD"
	if w.client.MasterName != "" { // before its host stand the user and the password of a sentinel
		w.url += "&username=shadowlimit&password=PASSWORD"
	} else {
		w.url = strings.Replace(w.url, "://", "://shadowlimit:PASSWORD@", 1)
	}

	// Doctor also asks for what the library does not need.
	if found := doctor(t, w.url, name); found.status != 0 || found.find(t, "access").Level != "ok" {
		t.Errorf("%+v", found)
	}
	for _, admin := range w.admins {
		_ = denied(t, admin)
	}
}

func (w *way) dial(t *testing.T) redis.UniversalClient {
	t.Helper()
	options := *w.client
	client := redis.NewUniversalClient(lua.Tune(&options, longBudget))
	t.Cleanup(func() { client.Close() })
	return client
}

func (w *way) conforms(t *testing.T) {
	client := w.dial(t)
	pair, err := lua.New(client, lua.Config{Name: namespace()})
	if err != nil {
		t.Fatal(err)
	}

	limitertest.Differential(t, *seed, 5_000, limitertest.Backend{Name: "lua", Pair: pair, Batch: 1})
	storetest.Run(t, func(*testing.T) stages.Store { return stages.NewRedisStore(client, namespace()) })
	ledgertest.Run(t, func(*testing.T) evidence.Ledger { return evidence.NewRedisLedger(client, namespace()) })
}

func byCluster(t *testing.T) *way {
	cluster := startCluster(t)
	addrs := cluster.Options().Addrs

	w := &way{url: "redis+cluster://" + addrs[0], client: &redis.UniversalOptions{Addrs: addrs, IsClusterMode: true}}
	for _, addr := range addrs {
		w.admins = append(w.admins, adminOf(t, addr))
	}
	return w
}

// byTLS starts a server with a certificate of an authority that only the test knows. It asks clients
// for theirs.
func byTLS(t *testing.T) *way {
	requireProgram(t, program(), "its server reads certificates from files")
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}

	trusted := newAuthority(t, "trusted")
	dir, ends := t.TempDir(), time.Now().Add(time.Hour)
	server, client := trusted.sign(t, ends), trusted.sign(t, ends)
	ca := writePEM(t, dir, "ca.crt", "CERTIFICATE", trusted.cert.Raw)
	cert, key := writePair(t, dir, "server", server)
	plain := privateServer(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca)

	roots := x509.NewCertPool()
	roots.AddCert(trusted.cert)
	addr := net.JoinHostPort("127.0.0.1", port)
	cert, key = writePair(t, dir, "client", client)
	files := url.Values{"cacert": {ca}, "cert": {cert}, "key": {key}}

	// Without a certificate of its own a client is refused.
	refused := doctor(t, "rediss://"+addr+"?cacert="+ca, "")
	if f := refused.find(t, "connection"); f.Level != "problem" {
		t.Errorf("a client without a certificate: %+v", f)
	}
	return &way{
		url: "rediss://" + addr + "?" + files.Encode(), admins: []*redis.Client{adminOf(t, plain)},
		client: &redis.UniversalOptions{
			Addrs: []string{addr}, TLSConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}},
		},
	}
}

func writePair(t *testing.T, dir, name string, pair tls.Certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert = writePEM(t, dir, name+".crt", "CERTIFICATE", pair.Certificate[0])
	return cert, writePEM(t, dir, name+".key", "PRIVATE KEY", der)
}

func writePEM(t *testing.T, dir, name, kind string, der []byte) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func adminOf(t *testing.T, addr string) *redis.Client {
	t.Helper()
	admin := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { admin.Close() })
	return admin
}

// bySentinel starts a primary, its replica, and a sentinel that watches them.
func bySentinel(t *testing.T) *way {
	requireProgram(t, program(), "sentinel and servers must reach each other")
	primary := privateServer(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(primary, ":")
	replica := privateServer(t, "--replicaof", host, port)

	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor main %s %s 1\n", host, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel, stop, err := startProgram("+monitor master main", file, "--sentinel")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)

	return &way{
		url:    "redis+sentinel://" + sentinel + "?master_name=main",
		client: &redis.UniversalOptions{Addrs: []string{sentinel}, MasterName: "main"},
		admins: []*redis.Client{adminOf(t, primary), adminOf(t, replica)},
	}
}

// A sentinel has the replica take over. The service goes on with it, and a rollback that was
// ordered before stays in force.
func TestSentinelMovesTheService(t *testing.T) {
	w := bySentinel(t)
	primary, replica := w.admins[0], w.admins[1]
	client, set := w.dial(t), sameTwice(t, 1000)
	h := harnessOf(t, shadow.Config{Policies: set, Redis: client})
	decide := func() bool { return !h.Decide(t.Context(), &policies.Request{User: "alice"}).Fallback }
	await(t, "the sentinel's primary decides", decide)

	store := stages.NewRedisStore(client, set.Name)
	if _, err := stages.Rollback(t.Context(), store, "per-user", stages.Order{Reason: "test"}); err != nil {
		t.Fatal(err)
	}

	// The sentinel learns of the replica from the primary, and asks it now and then.
	sentinel := adminOf(t, w.client.Addrs[0])
	await(t, "the replica has everything", func() bool {
		return primary.Wait(context.Background(), 1, time.Second).Val() == 1
	})
	await(t, "the sentinel begins a failover", func() bool {
		return sentinel.Do(context.Background(), "SENTINEL", "FAILOVER", "main").Err() == nil
	})
	await(t, "the replica takes over", func() bool {
		return strings.Contains(replica.Info(context.Background(), "replication").Val(), "role:master")
	})

	runs := executions(t, replica)
	await(t, "the replica decides", func() bool { return decide() && executions(t, replica) > runs })
	await(t, "the state is read from the replica", func() bool {
		states, err := store.States(t.Context(), []string{"per-user"})
		return err == nil && states[0].Stage == stages.RolledBack
	})
}
