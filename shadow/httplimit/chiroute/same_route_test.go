package chiroute_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/shadowlimit/shadowlimit/shadow/httplimit/chiroute"
)

// Every spelling of a request is charged under the route whose handler serves it. Otherwise a client could choose a
// spelling that is not limited.
func TestTheRouteIsTheOneThatIsServed(t *testing.T) {
	targets := []string{
		"/", "http://x", "http://x?q", "x:80",
		"/items/1", "/items/1/", "//items/1", "/items//1", "/items/../items/1", "/items/a%2Fb", "/items/%00", "/%69tems/1",
		"/v1", "/v1/", "/v1/a/b", "/v1/a%2Fb", "/v1//deep/x", "/v1/deep/x",
		"/files/", "/files", "/files/a/../b",
	}

	for name, before := range map[string][]func(http.Handler) http.Handler{
		"nothing":      nil,
		"StripSlashes": {middleware.StripSlashes},
		"GetHead":      {middleware.GetHead},
		"CleanPath":    {middleware.CleanPath},
		"all":          {middleware.CleanPath, middleware.StripSlashes, middleware.GetHead},
	} {
		var charged, served string
		root := chi.NewRouter()
		root.Use(before...)
		of := chiroute.Of(root)
		root.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				charged = of(r)
				next.ServeHTTP(w, r)
			})
		})

		serve := func(_ http.ResponseWriter, r *http.Request) { served = chi.RouteContext(r.Context()).RoutePattern() }
		deep := chi.NewRouter()
		deep.Get("/{z}", serve)
		sub := chi.NewRouter()
		sub.Get("/", serve)
		sub.Get("/a/{x}", serve)
		sub.Get("/{y}", serve)
		sub.Mount("/deep", deep)
		root.Mount("/v1", sub)
		root.Get("/", serve)
		root.Get("/items/{id}", serve)
		root.HandleFunc("/files/*", serve)

		for _, method := range []string{"GET", "HEAD", "POST", "CONNECT", "PURGE"} {
			for _, target := range targets {
				text := method + " " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"
				r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
				if err != nil {
					continue // no server accepts it
				}
				charged, served = "", ""
				root.ServeHTTP(httptest.NewRecorder(), r)
				if served != "" && charged != served {
					t.Errorf("behind %s: %s %s is charged as %q and served as %q", name, method, target, charged, served)
				}
			}
		}
	}
}
