package ginlimit_test

import (
	"io"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/shadowlimit/shadowlimit/adapters/ginlimit"
	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

func init() { gin.SetMode(gin.TestMode) }

func TestConformance(t *testing.T) {
	adaptertest.Run(t, adaptertest.Framework{
		Item: "/items/:id", Stream: "/stream", Hang: "/hang", Panic: "/panic",
		Start: func(t *testing.T, s *adaptertest.Service) adaptertest.Client {
			engine := gin.New()
			engine.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.AbortWithStatus(500) }))
			if err := ginlimit.Use(engine, s.Harness, configOf(s)); err != nil {
				t.Fatal(err)
			}

			engine.GET("/items/:id", func(c *gin.Context) { c.String(200, "%s", s.Item(c.Request.Context(), c.Param("id"))) })
			engine.GET("/free", func(c *gin.Context) { c.String(200, "free") })
			engine.GET("/stream", func(c *gin.Context) { s.ServeStream(c.Writer, c.Request) })
			engine.GET("/hang", func(c *gin.Context) { s.Hang(c.Request.Context()) })
			engine.GET("/fail", func(c *gin.Context) { s.ServeFailure(c.Writer, c.Request) })
			engine.GET("/panic", func(*gin.Context) { s.Panic() })
			return adaptertest.Serve(t, s, engine)
		},
	})
}

// configOf returns the middleware's configuration for a service of the suite.
func configOf(s *adaptertest.Service) ginlimit.Config {
	cfg := ginlimit.Config{
		ClientIP:    s.Settings.ClientIP,
		Fields:      httplimit.Fields(s.Settings.Fields),
		Announce:    s.Settings.Announce,
		RetryJitter: s.Settings.RetryJitter,
		MaxWaiting:  s.Settings.MaxWaiting,
		InContext:   s.InContext,
		Debug:       func(*gin.Context) bool { return s.Debugged },
	}
	if s.Identified {
		cfg.Identify = func(c *gin.Context, p *policies.Request) { adaptertest.Identify(c.GetHeader, p) }
	}
	return cfg
}
