// Checkout is the service of the README: a policy file, a Redis that several instances share, metrics, the status page and
// the red button. Its argument is where it listens; it reads policies.yaml in its folder of work.
//
//	go build -o ../checkout ./checkout && cd .. && ./checkout localhost:8081
package main

import (
	"context"
	"crypto/subtle"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("where to listen is not given: checkout localhost:8081")
	}

	// Tune turns retries off and makes deadlines hold: a slow Redis must not slow requests.
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{"localhost:6379"}}, 0))
	harness, err := shadow.New(shadow.Config{
		File:      "policies.yaml", // read again when it changes; a bad one changes nothing
		Redis:     client,
		StateDir:  "state-" + os.Args[1],                           // the stage, for a start without Redis
		RedButton: shadow.RedButton{File: "enforce-authoritative"}, // today's limiter at once, also without Redis
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := harness.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	prometheus.MustRegister(harness)

	api := http.NewServeMux()
	api.HandleFunc("POST /orders/{id}", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("ordered\n")) })

	root := http.NewServeMux()
	root.Handle("/", httplimit.New(harness, httplimit.Config{})(api))
	root.Handle("/metrics", promhttp.Handler())
	root.Handle("/status", harness.StatusPage())
	root.Handle("/red-button", operatorsOnly(harness.RedButtonHandler()))

	// Policies expect headers of a few kilobytes; the default of the server is 1 MB.
	server := &http.Server{Addr: os.Args[1], Handler: root, MaxHeaderBytes: 16 << 10}
	go func() {
		if err := server.ListenAndServe(); err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()

	// Close writes the last evidence, so it comes after the last request.
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	log.Print(server.Shutdown(last), harness.Close(last))
}

// operatorsOnly stands for the authorization of your service.
func operatorsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, given, _ := r.BasicAuth()
		password := os.Getenv("OPERATORS_PASSWORD")
		if password == "" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 0 {
			http.Error(w, "for operators", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
