// Client is for a service that calls an API with a limit, such as six requests a minute. It
// waits before it sends what would be denied, and repeats what is denied all the same: other
// programs may use the same account. newClient has all of it.
//
//	go run ./client -url https://api.example.com/items -n 10
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit/retry"
)

// newClient returns a client for an API with a limit of perMinute requests. base sends
// the requests.
func newClient(base http.RoundTripper, perMinute int64) (*http.Client, error) {
	// GCRA spreads the requests over the minute. The pacer is below the retries, so that a
	// repeated request waits for its turn, too.
	pacer, err := retry.NewPacer(retry.PacerConfig{
		Algorithm: algorithms.GCRA{},
		Limit:     algorithms.Limit{Requests: perMinute, Window: time.Minute, Burst: 1},
		MaxWait:   10 * time.Minute,
	})
	if err != nil {
		return nil, err
	}

	return &http.Client{Transport: retry.New(retry.Config{
		Base:   retry.Paced(base, pacer, nil),
		Bounds: retry.Bounds{MaxWait: 5 * time.Minute},
	})}, nil
}

// fetch sends a number of requests, and prints when each is answered and how.
func fetch(ctx context.Context, client *http.Client, url string, n int, out io.Writer) error {
	began := time.Now()
	for range n {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}

		// A body that is read to its end leaves the connection for the next request.
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, time.Since(began).Round(time.Second), response.Status)
	}
	return nil
}

func main() {
	url := flag.String("url", "http://localhost:8080/", "what to get")
	n := flag.Int("n", 10, "how many requests")
	perMinute := flag.Int64("limit", 60, "requests that the server allows a minute")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	client, err := newClient(nil, *perMinute)
	if err == nil {
		err = fetch(ctx, client, *url, *n, log.Writer())
	}
	if err != nil {
		log.Fatal(err)
	}
}
