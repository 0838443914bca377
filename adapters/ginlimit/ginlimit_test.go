package ginlimit_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/shadowlimit/shadowlimit/adapters/ginlimit"
	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Gin would leave out the routes that an engine has already.
func TestUseRefusesAnEngineWithRoutes(t *testing.T) {
	engine := gin.New()
	engine.GET("/items/:id", func(*gin.Context) {})
	err := ginlimit.Use(engine, adaptertest.BenchHarness(t, "request.ip"), ginlimit.Config{})
	if err == nil || !strings.Contains(err.Error(), "GET /items/:id") {
		t.Errorf("%v, want an error that names the route", err)
	}
}

// A group may be limited alone, and the service may answer a denial by itself.
func TestGroupAndOnDenied(t *testing.T) {
	limit := ginlimit.New(adaptertest.OnceHarness(t), ginlimit.Config{
		OnDenied: func(c *gin.Context, d shadow.Decision) { c.String(503, d.Policy) },
	})
	engine := gin.New()
	engine.GET("/free", func(*gin.Context) {})
	engine.Group("/v1", limit).GET("/items", func(c *gin.Context) { c.String(200, "served") })

	for i, tt := range []struct{ path, want string }{
		{"/v1/items", "200 served"}, {"/v1/items", "503 once"}, {"/free", "200 "},
	} {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
		if got := adaptertest.Summary(w); got != tt.want {
			t.Errorf("request %d: %s, want %s", i, got, tt.want)
		}
	}
}
