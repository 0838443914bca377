package httplimit_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

func TestConformance(t *testing.T) {
	adaptertest.Run(t, adaptertest.Framework{
		Item: "/items/{id}", Stream: "/stream", Hang: "/hang", Panic: "/panic",
		Start: func(t *testing.T, s *adaptertest.Service) adaptertest.Client {
			limit := httplimit.New(s.Harness, configOf(s))
			return adaptertest.Serve(t, s, recovered(limit(adaptertest.Mux(s))))
		},
	})
}

// configOf returns the middleware's configuration for a service of the suite.
func configOf(s *adaptertest.Service) httplimit.Config {
	cfg := httplimit.Config{
		ClientIP:    s.Settings.ClientIP,
		Fields:      httplimit.Fields(s.Settings.Fields),
		Announce:    s.Settings.Announce,
		RetryJitter: s.Settings.RetryJitter,
		MaxWaiting:  s.Settings.MaxWaiting,
		InContext:   s.InContext,
		Debug:       func(*http.Request) bool { return s.Debugged },
	}
	if s.Identified {
		cfg.Identify = func(r *http.Request, p *policies.Request) { adaptertest.Identify(r.Header.Get, p) }
	}
	return cfg
}

// recovered answers 500 where a handler panics, as most services do.
func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
				io.WriteString(w, "recovered")
			}
		}()
		next.ServeHTTP(w, r)
	})
}
