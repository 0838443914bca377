package httplimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// A handler is limited by the client's address.
func ExampleNew() {
	limit := algorithms.Limit{Requests: 1, Window: time.Hour}
	pair, err := shadow.NewPair(shadow.PairConfig{
		Authoritative: shadow.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: limit},
		Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: limit},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer pair.Close(context.Background())
	if err := pair.Start(context.Background()); err != nil {
		log.Fatal(err)
	}

	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ordered") })
	limited := httplimit.New(pair, httplimit.Config{})(api)

	for range 2 {
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders", http.NoBody))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 ""
	// 429 "3600"
}
