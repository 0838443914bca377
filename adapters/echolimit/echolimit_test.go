package echolimit_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/shadowlimit/shadowlimit/adapters/echolimit"
	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func ask(e *echo.Echo, path string) string {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return strings.TrimSpace(adaptertest.Summary(w))
}

// Before the router, policies that read routes would limit no request: each request fails and says why. Policies that
// read no routes do their work there.
func TestMiddlewareBeforeTheRouterFails(t *testing.T) {
	var log bytes.Buffer
	e := echo.New()
	e.Logger = slog.New(slog.NewTextHandler(&log, nil))
	e.Pre(echolimit.New(adaptertest.RouteHarness(t), echolimit.Config{}))
	e.GET("/items/:id", func(c *echo.Context) error { return c.String(200, "served") })
	if got := ask(e, "/items/1"); !strings.HasPrefix(got, "500") || !strings.Contains(log.String(), "and not with e.Pre") {
		t.Errorf("%s, logged %s", got, log.String())
	}

	e = quiet()
	e.Pre(echolimit.New(adaptertest.OnceHarness(t), echolimit.Config{}))
	e.GET("/items/:id", func(c *echo.Context) error { return c.String(200, "served") })
	if got := ask(e, "/items/1"); got != "200 served" {
		t.Errorf("a policy without routes: %s", got)
	}
	if got := ask(e, "/items/1"); !strings.HasPrefix(got, "429") {
		t.Errorf("a policy without routes, again: %s", got)
	}
}

// A group may be limited alone, and the service may answer a denial by itself.
func TestGroupAndOnDenied(t *testing.T) {
	e := quiet()
	e.GET("/free", func(c *echo.Context) error { return c.String(200, "free") })
	v1 := e.Group("/v1", echolimit.New(adaptertest.OnceHarness(t), echolimit.Config{
		OnDenied: func(c *echo.Context, d shadow.Decision) error { return c.String(503, d.Policy) },
	}))
	v1.GET("/items", func(c *echo.Context) error { return c.String(200, "served") })

	for i, tt := range []struct{ path, want string }{
		{"/v1/items", "200 served"}, {"/v1/items", "503 once"}, {"/free", "200 free"},
	} {
		if got := ask(e, tt.path); got != tt.want {
			t.Errorf("request %d: %s, want %s", i, got, tt.want)
		}
	}
}
