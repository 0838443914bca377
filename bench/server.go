package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
)

// patience is how long a call may take. No call of a benchmark may time out: a failed one is cheap.
const patience = 10 * time.Second

// server is a redis-server of a part, on a free port of the loopback interface.
type server struct {
	addr   string
	client redis.UniversalClient
}

// server starts the part's server, or returns the one that runs.
func (s *site) server() (*server, error) {
	if s.redis != nil {
		return s.redis, nil
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().(*net.TCPAddr)
	listener.Close()

	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w: Debian's package redis-server has it", err)
	}
	cmd := exec.Command(program, "--port", strconv.Itoa(addr.Port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })

	// The log ends with the process.
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		if strings.Contains(scanner.Text(), "Ready to accept connections") {
			go func() { // reads on, because a full pipe would block the server
				for scanner.Scan() {
				}
			}()
			s.redis = &server{addr: addr.String(), client: connect(addr.String())}
			s.atEnd(func() { s.redis.client.Close() })
			return s.redis, nil
		}
	}
	return nil, fmt.Errorf("%s does not start", program)
}

// connect returns a client. All subjects have the same options, which are those of the README but for their patience.
func connect(addr string) redis.UniversalClient {
	return redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, patience))
}

// work is what a server has done since it started.
type work struct {
	scripts float64 // calls
	script  float64 // us of them
	cpu     float64 // us of the process
}

// work asks a server for what it has done.
func (s *server) work() (w work, err error) {
	sections, err := s.client.(*redis.Client).InfoMap(context.Background(), "commandstats", "cpu").Result()
	if err != nil {
		return w, err
	}

	for name, text := range sections["Commandstats"] {
		if !strings.HasPrefix(name, "cmdstat_eval") {
			continue
		}
		var calls, usec float64
		if _, err := fmt.Sscanf(text, "calls=%f,usec=%f,", &calls, &usec); err != nil {
			return w, fmt.Errorf("%s: %q: %w", name, text, err)
		}
		w.scripts, w.script = w.scripts+calls, w.script+usec
	}

	user, err := strconv.ParseFloat(sections["CPU"]["used_cpu_user"], 64)
	system, err2 := strconv.ParseFloat(sections["CPU"]["used_cpu_sys"], 64)
	w.cpu = (user + system) * 1e6
	return w, cmp.Or(err, err2)
}

// since returns what a server has done between two questions.
func (w work) since(before work) work {
	return work{w.scripts - before.scripts, w.script - before.script, w.cpu - before.cpu}
}
