package integration

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	imageVariable   = "SHADOWLIMIT_TEST_REDIS_IMAGE"  // image of the container, default below
	urlVariable     = "SHADOWLIMIT_TEST_REDIS_URL"    // a server that runs already, in addition
	programVariable = "SHADOWLIMIT_TEST_REDIS_SERVER" // the only server's program, default below
	defaultImage    = "redis:7.2-alpine"
	defaultProgram  = "redis-server"
)

// program is the server that tests start as a process.
func program() string { return cmp.Or(os.Getenv(programVariable), defaultProgram) }

// server is a Redis for the tests.
type server struct {
	way  string // container, local, given or chosen
	addr string
}

// servers are the Redis servers that all tests share; each test has a namespace of its
// own. They are started once, and TestMain stops them.
var servers = sync.OnceValues(startServers)

var stopServers []func()

// buildDir is the folder of the programs that the tests build.
var buildDir string

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // servers are stopped on purpose, and go-redis reports each dial that fails

	// A test starts this binary again as a service, or as many.
	if text := os.Getenv(crewVariable); text != "" {
		if err := manCrew(text); err != nil {
			fmt.Fprintln(os.Stderr, "crew:", err)
			os.Exit(1)
		}
		return
	}
	if addr := os.Getenv(serviceVariable); addr != "" {
		if err := serve(addr, os.Getenv(nameVariable)); err != nil {
			fmt.Fprintln(os.Stderr, "service:", err)
			os.Exit(1)
		}
		return
	}

	dir, err := os.MkdirTemp("", "shadowlimit-build")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	buildDir = dir
	moveCache(filepath.Join(dir, "cache"))
	code := m.Run()

	os.RemoveAll(dir)
	for _, stop := range stopServers {
		stop()
	}
	os.Exit(code)
}

// moveCache gives the instances another place on disk, so that what they keep does not reach
// those of the next run. The compiler keeps its own: without it a test that builds a program
// would compile the standard library.
func moveCache(dir string) {
	cache, err := os.UserCacheDir()
	if err == nil && os.Getenv("GOCACHE") == "" {
		os.Setenv("GOCACHE", filepath.Join(cache, "go-build"))
	}
	os.Setenv("XDG_CACHE_HOME", dir)
}

// eachServer runs a test on every Redis: in a container if Docker answers, else on a
// local redis-server. CI requires both. If a program is chosen, it is the only one.
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

	start := func(way string, start func(...string) (string, func(), error)) error {
		addr, stop, err := start()
		if err != nil {
			return err
		}
		stopServers = append(stopServers, stop)
		return add(way, addr)
	}

	if os.Getenv(programVariable) != "" {
		err := start("chosen", startRedis)
		return list, err
	}

	inDocker := start("container", startContainer)
	if inDocker != nil && ci {
		return nil, fmt.Errorf("in CI a container is required: %w", inDocker)
	}

	if inDocker != nil || ci {
		err := start("local", startRedis)
		if err != nil && ci {
			return nil, fmt.Errorf("in CI a local redis-server is required: %w", err)
		}
		if err != nil {
			return nil, fmt.Errorf("no Redis: install Docker or redis-server: %w; %w", inDocker, err)
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

	// A Valkey also reports the version of the Redis that it stands for.
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[field] = value
	}

	for _, maker := range []string{"valkey", "redis"} {
		if version := fields[maker+"_version"]; version != "" {
			return maker + " " + version + " at " + addr, nil
		}
	}

	return "", fmt.Errorf("%s is not a Redis", addr)
}

// startContainer starts a Redis in a container; args go to its redis-server.
func startContainer(args ...string) (addr string, stop func(), err error) {
	defer func() {
		if r := recover(); r != nil { // testcontainers panics if it finds no Docker host
			err = fmt.Errorf("testcontainers: %v", r)
		}
	}()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return "", nil, err
	}
	defer provider.Close()

	if err := provider.Health(ctx); err != nil {
		return "", nil, err
	}

	image := os.Getenv(imageVariable)
	if image == "" {
		image = defaultImage
	}

	var options []testcontainers.ContainerCustomizer
	if len(args) > 0 {
		command := append([]string{"redis-server", "--save", "", "--protected-mode", "no"}, args...)
		options = append(options, testcontainers.WithCmd(command...))
	}

	container, err := tcredis.Run(ctx, image, options...)
	stop = func() { _ = testcontainers.TerminateContainer(container) }
	if err == nil {
		addr, err = container.PortEndpoint(ctx, "6379/tcp", "")
	}
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("image %s: %w", image, err)
	}

	return addr, stop, nil
}

// requireProgram returns the path of a program that a test cannot do without, for the given
// reason. Without it the test is skipped, and fails in CI, which must have every component.
func requireProgram(t testing.TB, name, reason string) string {
	t.Helper()

	path, err := exec.LookPath(name)
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("CI needs %s: %s; integration/components.sh installs it", name, reason)
	case err != nil:
		t.Skipf("%s is not on PATH: %s; integration/components.sh installs it", name, reason)
	}
	return path
}

// privateServer starts a Redis for one test, which may harm it: a redis-server, or a
// container if that is not installed. The server stops at the end of the test.
func privateServer(t testing.TB, args ...string) string {
	t.Helper()

	addr, stop, err := startRedis(args...)
	if errors.Is(err, exec.ErrNotFound) {
		addr, stop, err = startContainer(args...)
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(stop)
	return addr
}

// startRedis starts a server that keeps keys.
func startRedis(args ...string) (addr string, stop func(), err error) {
	return startProgram("Ready to accept connections", args...)
}

// startProgram starts the program on a free port of the loopback interface and waits until its
// log says that it is ready. The first of args may be a file of its configuration.
func startProgram(ready string, args ...string) (addr string, stop func(), err error) {
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}

	addr = net.JoinHostPort("127.0.0.1", port)
	dir, err := os.MkdirTemp("", "shadowlimit-redis")
	if err != nil {
		return "", nil, err
	}

	options := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		options, args = append(args[:1:1], options...), args[1:]
	}
	cmd := exec.Command(program(), append(options, args...)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = cmd.Stdout
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

	// The end of the process ends the log, and with it the loop below.
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()

	var log strings.Builder
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		if strings.Contains(scanner.Text(), ready) {
			go func() { // reads on, because a full pipe would block the server
				for scanner.Scan() {
				}
			}()
			return addr, stop, nil
		}
		log.WriteString(scanner.Text() + "\n")
	}

	stop()
	return "", nil, fmt.Errorf("%s does not start:\n%s", program(), log.String())
}

// busDistance is how far a node's port for the bus of its cluster lies above its own.
const busDistance = 10_000

// freePort returns a port that was free when it was called, as was the one for a cluster's bus.
func freePort() (string, error) {
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		defer listener.Close() // at the end, so that no port is offered twice

		port := listener.Addr().(*net.TCPAddr).Port
		bus, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+busDistance))
		if err != nil {
			continue
		}

		return strconv.Itoa(port), bus.Close()
	}
}

// silence is a logger of go-redis that says nothing.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
