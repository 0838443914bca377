package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory, so that time in a bubble may pass.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipe"} }

// unixPipe is an end of a pipe that says it is a Unix socket.
type unixPipe struct{ net.Conn }

func (unixPipe) LocalAddr() net.Addr  { return &net.UnixAddr{Net: "unix", Name: "pipe"} }
func (unixPipe) RemoteAddr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "@"} }

// dial returns a connection to the server.
func (l *pipes) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- unixPipe{server}
	return client
}

// get asks as nginx does, and returns the status.
func get(c net.Conn) (int, error) {
	r := nginx.question("X-Tenant", "shaped")
	go r.Write(c)
	response, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}

// shaped has a turn each minute.
const shaped = `
version: 1
name: shaped
policies:
  - { name: shaped, key: request.ip, authoritative: { algorithm: leaky_bucket, limit: 60, window: 1h, burst: 10 } }
`

// A request that waits for its turn is answered in its turn, also after the time in which a request must be read and
// answered. A Unix socket needs no token.
func TestTurnsOutliveTheTimeForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(c *Config) {
			c.Limiter = harnessOf(t, shaped, nil)
			c.Token = "correct horse battery staple"
		})
		l := newPipes()
		ctx, end := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, l) }()

		began := time.Now()
		for _, want := range []time.Duration{0, time.Minute, 2 * time.Minute} {
			c := l.dial()
			status, err := get(c)
			if took := time.Since(began); err != nil || status != 204 || took != want {
				t.Errorf("%d and %v after %v, want 204 after %v", status, err, took, want)
			}
			c.Close()
		}

		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// When it ends, a server finishes what has begun, for a while, and says that it is not ready.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.ReplaceAll(shaped, "60, window: 1h", "12, window: 1m") // a turn each 5 s
		s := newServer(t, func(c *Config) { c.Limiter = harnessOf(t, text, nil) })
		l := newPipes()
		ctx, end := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, l) }()

		// The first has its turn at once, and the others after 5, 10 and 15 s.
		answers := make(chan int, 4)
		for range 4 {
			c := l.dial()
			go func() {
				defer c.Close()
				status, _ := get(c)
				answers <- status
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		end()
		synctest.Wait()
		if w := ask(s, nginxReady(), here); w.Code != 503 {
			t.Errorf("ready while it ends: %d", w.Code)
		}

		err := <-served
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the one that was cut off", err)
		}
		counts := map[int]int{}
		for range 4 {
			counts[<-answers]++
		}
		if counts[204] != 3 || counts[0] != 1 {
			t.Errorf("%v, want three answers, and one cut off after %v", counts, Grace)
		}
	})
}

func nginxReady() *http.Request {
	r := nginx.question()
	r.URL.Path = Ready
	return r
}

// A server that loses one listener ends, and closes the others.
func TestServeFailsWithItsListener(t *testing.T) {
	s := newServer(t, nil)
	broken, other := newPipes(), newPipes()
	broken.Close()
	if err := s.Serve(t.Context(), broken, other); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := other.Accept(); err == nil {
		t.Error("the other listener is open")
	}
}

// The log has a line each 10 s at most, whatever peers send.
func TestComplaintsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := complaints{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 100 {
			c.say("wrong")
		}
		time.Sleep(complaintsEvery)
		io.WriteString(&c, "http: TLS handshake error\n")
		c.say("wrong")

		text := log.String()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, "not_logged=99") || !strings.Contains(text, "handshake") {
			t.Error(text)
		}
	})
}

// A server listens to its machine, and further only if that is allowed.
func TestListen(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:0": true, "[::1]:0": true, "localhost:0": true, ":0": false, "0.0.0.0:0": false} {
		list, err := Listen(false, address)
		if errors.As(err, new(*net.OpError)) {
			continue // a machine without IPv6
		}
		if remote := errors.As(err, new(Remote)); remote == want {
			t.Errorf("%s: %v", address, err)
		}
		for _, l := range list {
			l.Close()
		}
	}

	list, err := Listen(true, "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	list[0].Close()
}

// A socket that was left behind is replaced. One in use, and a file, are not.
func TestListenOnASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()

	list, err := Listen(false, "127.0.0.1:0", "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != socketMode {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := Listen(false, "unix:"+path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server on the socket: %v", err)
	}
	for _, l := range list {
		l.Close()
	}

	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(false, "unix:"+path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("the file is gone")
	}
}
