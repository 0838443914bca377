package integration

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// soakServer is a redis-server that can be stopped, and started again at its address.
type soakServer struct {
	t    *testing.T
	addr string
	dir  string
	cmd  *exec.Cmd
}

func newSoakServer(t *testing.T) *soakServer {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	s := &soakServer{t: t, addr: net.JoinHostPort("127.0.0.1", port), dir: t.TempDir()}
	t.Cleanup(s.kill)
	s.start()
	return s
}

// start starts the server with the data in its directory, and waits until it answers.
func (s *soakServer) start() {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	s.cmd = exec.Command(program(), "--port", port, "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	await(s.t, "redis-server answers", func() bool { return s.do("PING") == nil })
}

// do runs a command. A server that is about to end may not answer.
func (s *soakServer) do(args ...any) error {
	client := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	defer client.Close()
	return client.Do(context.Background(), args...).Err()
}

func (s *soakServer) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redis-server: %v", err)
	}
}

// kill ends the server without a word. It does nothing to one that has ended.
func (s *soakServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// restart ends the server and starts it again, with all its data or without any.
func (s *soakServer) restart(data keeping) {
	s.t.Helper()
	if data == keepsData {
		_ = s.do("SHUTDOWN", "SAVE") // the connection ends instead of an answer
		_ = s.cmd.Wait()
	} else {
		s.kill()
		if err := os.RemoveAll(s.dir + "/dump.rdb"); err != nil {
			s.t.Fatal(err)
		}
	}
	s.start()
}

type keeping int

const (
	losesData keeping = iota
	keepsData
)

// soakRedis is a primary with a replica, behind one proxy for instances and commands.
type soakRedis struct {
	t                *testing.T
	primary, replica *soakServer
	proxy            *faultyProxy
	entrance         string
}

func newSoakRedis(t *testing.T) *soakRedis {
	t.Helper()
	r := &soakRedis{t: t, primary: newSoakServer(t)}
	r.proxy, r.entrance = startProxy(t, r.primary.addr)
	r.addReplica()
	return r
}

// addReplica starts another replica, and waits until it has all data.
func (r *soakRedis) addReplica() {
	r.t.Helper()
	r.replica = newSoakServer(r.t)
	host, port, _ := strings.Cut(r.primary.addr, ":")
	ask(r.t, r.replica.addr, "REPLICAOF", host, port)
	r.awaitReplica()
}

func (r *soakRedis) awaitReplica() {
	r.t.Helper()
	await(r.t, "the replica is in step", func() bool {
		return strings.Contains(ask(r.t, r.replica.addr, "INFO", "replication"), "master_link_status:up")
	})
}

// failOver kills the primary and makes the replica the new one, which has missed the writes of
// some time.
func (r *soakRedis) failOver(missed time.Duration) {
	r.t.Helper()
	ask(r.t, r.replica.addr, "REPLICAOF", "NO", "ONE")
	<-time.After(missed)
	r.primary.kill()
	r.primary = r.replica
	r.proxy.point(r.primary.addr)
	r.addReplica()
}
