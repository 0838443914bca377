package echolimit_test

import (
	"log/slog"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/shadowlimit/shadowlimit/adapters/echolimit"
	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

func TestConformance(t *testing.T) {
	adaptertest.Run(t, adaptertest.Framework{
		Item: "/items/:id", Stream: "/stream", Hang: "/hang", Panic: "/panic",
		Start: func(t *testing.T, s *adaptertest.Service) adaptertest.Client {
			e := quiet()
			e.Use(middleware.Recover(), echolimit.New(s.Harness, configOf(s)))

			e.GET("/items/:id", func(c *echo.Context) error { return c.String(200, s.Item(c.Request().Context(), c.Param("id"))) })
			e.GET("/free", func(c *echo.Context) error { return c.String(200, "free") })
			e.GET("/stream", func(c *echo.Context) error { s.ServeStream(c.Response(), c.Request()); return nil })
			e.GET("/hang", func(c *echo.Context) error { s.Hang(c.Request().Context()); return nil })
			e.GET("/fail", func(*echo.Context) error { return echo.NewHTTPError(503, "down") })
			e.GET("/panic", func(*echo.Context) error { s.Panic(); return nil })
			return adaptertest.Serve(t, s, e)
		},
	})
}

// quiet returns an Echo that logs nothing.
func quiet() *echo.Echo {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	return e
}

// configOf returns the middleware's configuration for a service of the suite.
func configOf(s *adaptertest.Service) echolimit.Config {
	cfg := echolimit.Config{
		ClientIP:    s.Settings.ClientIP,
		Fields:      httplimit.Fields(s.Settings.Fields),
		Announce:    s.Settings.Announce,
		RetryJitter: s.Settings.RetryJitter,
		MaxWaiting:  s.Settings.MaxWaiting,
		InContext:   s.InContext,
		Debug:       func(*echo.Context) bool { return s.Debugged },
	}
	if s.Identified {
		cfg.Identify = func(c *echo.Context, p *policies.Request) { adaptertest.Identify(c.Request().Header.Get, p) }
	}
	return cfg
}
