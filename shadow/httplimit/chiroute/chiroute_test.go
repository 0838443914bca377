package chiroute_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/shadowlimit/shadowlimit/shadow/httplimit/chiroute"
)

func served(http.ResponseWriter, *http.Request) {}

func TestRoutesAreKnownBeforehand(t *testing.T) {
	inner := chi.NewRouter()
	inner.Get("/{id}", served)
	router := chi.NewRouter()
	router.Get("/items/{id}", served)
	router.Mount("/orders", inner)
	of := chiroute.Of(router)

	for path, want := range map[string]string{
		"/items/1":     "/items/{id}",
		"/items/a%2Fb": "/items/{id}",
		"/orders/7":    "/orders/{id}",
		"/nothing":     "",
		"/items":       "",
	} {
		if got := of(httptest.NewRequest("GET", path, nil)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}

	if got := of(httptest.NewRequest("POST", "/items/1", nil)); got != "" {
		t.Errorf("POST: %q", got)
	}
}

// After chi's own middleware has rewritten a request, the route is the one that serves it.
func TestRoutesBehindMiddlewareThatRewrites(t *testing.T) {
	var seen string
	router := chi.NewRouter()
	router.Use(middleware.CleanPath, middleware.StripSlashes, middleware.GetHead, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = chiroute.Of(router)(r)
			next.ServeHTTP(w, r)
		})
	})

	router.Get("/v1/login", served)
	for _, path := range []string{"/v1/login", "/v1/login/", "//v1//login", "/v1/x/../login"} {
		for _, method := range []string{"GET", "HEAD"} {
			w := httptest.NewRecorder()
			router.ServeHTTP(w, httptest.NewRequest(method, "http://x"+path, nil))
			if w.Code == http.StatusOK && seen != "/v1/login" {
				t.Errorf("%s %s is served, and its route is %q", method, path, seen)
			}
		}
	}
}
