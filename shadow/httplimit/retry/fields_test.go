package retry_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit/retry"
)

// Each shadow.Limiter is one for a Pacer.
var _ retry.Limiter = shadow.Limiter(nil)

// handled answers by a handler without a network, and without a field if told to.
type handled struct {
	http.Handler
	without string
}

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	response := w.Result()
	response.Header.Del(h.without)
	response.Body = io.NopCloser(response.Body)
	return response, nil
}

// limited is a service with a limit of two requests a minute.
func limited(t *testing.T, cfg httplimit.Config) (http.Handler, func()) {
	t.Helper()
	limit := algorithms.Limit{Requests: 2, Window: time.Minute}
	pair, err := shadow.NewPair(shadow.PairConfig{
		Authoritative: shadow.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: limit},
		Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: limit},
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}

	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") })
	return httplimit.New(pair, cfg)(served), func() { pair.Close(context.Background()) }
}

// A client repeats a request that this project's middleware has denied when it is allowed, by every style of fields, also
// where a proxy has dropped Retry-After.
func TestEveryStyleOfFields(t *testing.T) {
	for _, without := range []string{"", "Retry-After"} {
		for style := httplimit.FieldsDraft08; style <= httplimit.FieldsNone; style++ {
			if style == httplimit.FieldsNone && without != "" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				service, end := limited(t, httplimit.Config{Fields: style})
				defer end()
				client := retry.New(retry.Config{
					Base:   handled{service, without},
					Bounds: retry.Bounds{Attempts: 2, Backoff: time.Millisecond},
				})

				began := time.Now()
				for n := range 3 {
					r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://example.com/", nil)
					response, err := client.RoundTrip(r)
					if err != nil || response.StatusCode != 200 {
						t.Fatalf("style %d, request %d: %v (%v), want 200", style, n, response, err)
					}
				}
				if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
					t.Errorf("style %d without %q: the third is served after %s, want a minute", style, without, took)
				}
			})
		}
	}
}

// A paced client of the same limit is denied nothing.
func TestPacedClientOfALimitedService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, end := limited(t, httplimit.Config{})
		defer end()
		limit := algorithms.Limit{Requests: 2, Window: time.Minute}
		pacer, err := retry.NewPacer(retry.PacerConfig{Algorithm: algorithms.FixedWindowAnchored{}, Limit: limit, MaxWait: time.Hour})
		if err != nil {
			t.Fatal(err)
		}

		client := retry.Paced(handled{service, ""}, pacer, nil)
		for n := range 9 {
			r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://example.com/", strings.NewReader("x"))
			if response, err := client.RoundTrip(r); err != nil || response.StatusCode != 200 {
				t.Errorf("request %d: %v (%v)", n, response, err)
			}
		}
	})
}
