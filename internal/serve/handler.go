package serve

import (
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Paths of the server.
const (
	Check       = "/v1/check"
	Settle      = "/v1/settle"
	ForwardAuth = "/v1/forward-auth" // Traefik and Caddy
	AuthRequest = "/v1/auth-request" // nginx
	Health      = "/healthz"
	Ready       = "/readyz"
	Metrics     = "/metrics"
	Status      = "/status"
)

func (s *Server) handler() http.Handler {
	root := http.NewServeMux()
	root.HandleFunc("GET "+Health, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	root.HandleFunc("GET "+Ready, s.ready)
	root.Handle("GET "+Metrics, s.token.bearer(s.named(s.metrics())))
	root.Handle("GET "+Status, s.token.bearer(s.named(s.cfg.Limiter.StatusPage())))

	if s.cfg.Shows {
		return root
	}

	// A page in a browser on this machine must not use up the budget of a key.
	root.Handle("POST "+Check, s.token.bearer(s.named(http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.check)))))
	root.Handle("POST "+Settle, s.token.bearer(s.named(http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.settle)))))

	// A proxy may ask with its client's method.
	root.Handle(ForwardAuth, s.token.own(s.proxied(forwardAuth)))
	root.Handle(AuthRequest, s.token.own(s.proxied(authRequest)))
	return root
}

// ready says whether questions may be sent. A Redis that does not answer is no reason against it: policies decide by
// their rules for that, and all servers would say so at once.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if s.ending.Load() {
		http.Error(w, "ending", http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ready\n")
}

// metrics are those of the limiter and of the process.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.cfg.Limiter, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s.cfg.Metrics != nil {
		registry.MustRegister(s.cfg.Metrics)
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
