package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// serveCommand makes this program a service: bench serve KIND ADDRESS-OF-REDIS.
const serveCommand = "serve"

// Kinds of services.
const (
	bareService = "bare"
	ourService  = "shadowlimit"
)

var serviceKinds = []string{bareService, redisRate, ourService}

// Columns of the part, besides the CPU of Redis.
const (
	requests = "requests/s"
	typical  = "p50, ms"
	slowest  = "p99, ms"
)

var serviceColumns = []string{requests, typical, slowest, serverCPU}

var servicePart = part{
	name: "service", columns: serviceColumns, subjects: serviceSubjects(), goals: serviceGoals, rounds: 2,
}

func serviceSubjects() (list []subject) {
	for _, kind := range serviceKinds {
		list = append(list, subject{kind, func(s *site) (measure, error) { return s.service(kind) }})
	}
	return list
}

// serve is a service until its input ends, as it does with the program that has started it. It prints its address.
func serve(kind, redisAddr string) error {
	s := &site{}
	defer s.close()
	handler, err := s.handler(kind, connect(redisAddr))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}

	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		listener.Close()
	}()
	if err := http.Serve(listener, handler); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// handler is the service of the README without a limit, with the peer, or with the README's policy.
func (s *site) handler(kind string, client redis.UniversalClient) (http.Handler, error) {
	switch kind {
	case redisRate:
		return redisRateMiddleware(redis_rate.NewLimiter(client), orders()), nil
	case ourService:
		harness, err := s.harness(1, shadow.Config{Redis: client})
		if err != nil {
			return nil, err
		}
		return httplimit.New(harness, httplimit.Config{})(orders()), nil
	}
	return orders(), nil
}

// redisRateMiddleware is the one of redis_rate's README.
func redisRateMiddleware(limiter *redis_rate.Limiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result, err := limiter.Allow(r.Context(), "project:"+r.Header.Get(tenantHeader), peerLimit)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}

		h := w.Header()
		h.Set("RateLimit-Remaining", strconv.Itoa(result.Remaining))
		if result.Allowed == 0 {
			h.Set("RateLimit-RetryAfter", strconv.Itoa(int(result.RetryAfter/time.Second)))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// service starts a process and returns the measurement of it under load.
func (s *site) service(kind string) (measure, error) {
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	addr, err := s.start(kind, server.addr)
	if err != nil {
		return nil, err
	}
	l, err := connectLoad(addr)
	if err != nil {
		return nil, err
	}
	s.atEnd(l.close)

	if err := l.send(s.slice / 4); err != nil { // connects to Redis, and knows all tenants
		return nil, err
	}
	return func() ([]float64, error) { return l.measure(kind, server, s.slice) }, nil
}

// start starts this program as a service, and returns its address.
func (s *site) start(kind, redisAddr string) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(context.Background(), program, serveCommand, kind, redisAddr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}

	s.atEnd(func() { _, _ = in.Close(), cmd.Wait() })
	addr, err := bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(addr), err
}

func serviceGoals(r results) []goal {
	return []goal{{
		what: "requests/s over those with redis_rate", beside: amount(r.spread(redisRate, requests).median),
		bound: 0.95, atLeast: true, value: r.over(ourService, redisRate, requests),
	}}
}
