package chiroute_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit/chiroute"
)

func TestConformance(t *testing.T) {
	adaptertest.Run(t, adaptertest.Framework{
		Item: "/items/{id}", Stream: "/stream", Hang: "/hang", Panic: "/panic",
		Start: func(t *testing.T, s *adaptertest.Service) adaptertest.Client {
			router := chi.NewRouter()
			router.Use(middleware.Recoverer, middleware.CleanPath, middleware.StripSlashes, middleware.GetHead)
			router.Use(httplimit.New(s.Harness, configOf(s, router)))
			route(s, router)
			return adaptertest.Serve(t, s, router)
		},
	})
}

// configOf returns the middleware's configuration for a service of the suite.
func configOf(s *adaptertest.Service, router chi.Routes) httplimit.Config {
	cfg := httplimit.Config{
		Route:       chiroute.Of(router),
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

// route registers the service's routes.
func route(s *adaptertest.Service, router chi.Router) {
	router.Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(s.Item(r.Context(), chi.URLParam(r, "id"))))
	})
	router.Get("/free", func(http.ResponseWriter, *http.Request) {})
	router.Get("/stream", s.ServeStream)
	router.Get("/hang", func(_ http.ResponseWriter, r *http.Request) { s.Hang(r.Context()) })
	router.Get("/fail", s.ServeFailure)
	router.Get("/panic", func(http.ResponseWriter, *http.Request) { s.Panic() })
}
