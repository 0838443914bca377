package integration

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/testcontainers/testcontainers-go"
	tcredis "github.com/testcontainers/testcontainers-go/modules/redis"
)

// Variables of the environment.
const (
	imageVariable = "SHADOWLIMIT_TEST_REDIS_IMAGE" // image of the container, default below
	urlVariable   = "SHADOWLIMIT_TEST_REDIS_URL"   // a server that runs already, in addition
	defaultImage  = "redis:7.2-alpine"
)

// server is a Redis for tests.
type server struct {
	way  string // container, local or given
	addr string
}

// servers are the Redis servers that all tests share: keys are kept apart by
// namespaces. They are started once and stopped by TestMain.
var servers = sync.OnceValues(startServers)

var stopServers []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range stopServers {
		stop()
	}
	os.Exit(code)
}

// eachServer runs a test on every way to have a Redis: a container where Docker
// answers, a local redis-server where it does not. In CI it must be both.
func eachServer(t *testing.T, test func(*testing.T, server)) {
	list, err := servers()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		t.Run(s.way, func(t *testing.T) { test(t, s) })
	}
}

func startServers() ([]server, error) {
	ci := os.Getenv("CI") == "true"
	var list []server
	add := func(way, addr string) error {
		info, err := describe(addr)
		if err == nil {
			fmt.Printf("integration: %s: %s\n", way, info)
			list = append(list, server{way, addr})
		}
		return err
	}
	addr, err := startContainer()
	if err == nil {
		err = add("container", addr)
	}
	if err != nil && ci {
		return nil, fmt.Errorf("in CI a container is required: %w", err)
	}
	if len(list) == 0 || ci {
		if addr, err = startLocal(); err == nil {
			err = add("local", addr)
		}
		if err != nil {
			return nil, fmt.Errorf("no Docker answers and there is no redis-server: install one of them: %w", err)
		}
	}
	if url := os.Getenv(urlVariable); url != "" {
		options, err := redis.ParseURL(url)
		if err == nil {
			err = add("given", options.Addr)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", urlVariable, err)
		}
	}
	return list, nil
}

func describe(addr string) (string, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	info, err := client.Info(context.Background(), "server").Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if version, found := strings.CutPrefix(line, "redis_version:"); found {
			return "redis " + strings.TrimSpace(version) + " at " + addr, nil
		}
	}
	return "", fmt.Errorf("%s is no Redis", addr)
}

func startContainer() (addr string, err error) {
	defer func() {
		if r := recover(); r != nil { // testcontainers panics where no Docker host can be found
			err = fmt.Errorf("testcontainers: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return "", err
	}
	defer provider.Close()
	if err := provider.Health(ctx); err != nil {
		return "", err
	}
	image := os.Getenv(imageVariable)
	if image == "" {
		image = defaultImage
	}
	container, err := tcredis.Run(ctx, image)
	if container != nil {
		stopServers = append(stopServers, func() { _ = testcontainers.TerminateContainer(container) })
	}
	if err != nil {
		return "", fmt.Errorf("image %s: %w", image, err)
	}
	return container.PortEndpoint(ctx, "6379/tcp", "")
}

func startLocal() (string, error) {
	addr, stop, err := startRedis()
	if err == nil {
		stopServers = append(stopServers, stop)
	}
	return addr, err
}

// privateServer starts a redis-server for one test that harms it. It is stopped
// at the test's end.
func privateServer(t testing.TB, args ...string) string {
	t.Helper()
	addr, stop, err := startRedis(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return addr
}

// startRedis starts a redis-server on a free port of the loopback interface and
// waits for its word that it is ready.
func startRedis(args ...string) (addr string, stop func(), err error) {
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	addr = net.JoinHostPort("127.0.0.1", port)
	dir, err := os.MkdirTemp("", "shadowlimit-redis")
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command("redis-server", append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, args...)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		os.RemoveAll(dir)
	})
	var log strings.Builder
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		if strings.Contains(scanner.Text(), "Ready to accept connections") {
			go func() { // drains the log until the process ends, lest it block
				for scanner.Scan() {
				}
			}()
			return addr, stop, nil
		}
		log.WriteString(scanner.Text() + "\n")
	}
	stop()
	return "", nil, fmt.Errorf("redis-server does not start:\n%s", log.String())
}

// freePort returns a port that was free a moment ago.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}
