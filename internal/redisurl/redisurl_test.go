package redisurl

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A server may be at a Unix socket, as redis-cli and go-redis name it.
func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	options, err := Parse("unix://user:pass@" + socket + "?db=3")
	if err != nil || options.Username != "user" || options.Password != "pass" || options.DB != 3 {
		t.Fatalf("%+v, %v", options, err)
	}

	client := redis.NewUniversalClient(options)
	defer client.Close()
	ctx, leave := context.WithCancel(t.Context())
	pinged := make(chan struct{})
	go func() {
		defer close(pinged)
		client.Ping(ctx)
	}()
	conn, err := listener.Accept()
	leave()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	<-pinged
}

func TestSocketsThatAreNone(t *testing.T) {
	for _, url := range []string{"unix://", "unix:///", "unix://host/path", "unix://host:1/path", "unix://u:1/2@/path", "unix://:p@host/path"} {
		if _, err := Parse(url); !errors.Is(err, errSocket) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
