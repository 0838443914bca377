package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// Bounds of a connection. Proxies pass on what their clients send, and other clients may be hostile.
const (
	// headerTimeout is how long a peer may take to send a request's header, and readTimeout for all of the request.
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	// writeTimeout is how long an answer may take, without the wait for a turn in a leaky bucket.
	writeTimeout = 30 * time.Second
	// idleTimeout is longer than the time for which nginx, Caddy and Traefik keep an unused connection: the one that
	// closes it must be the proxy, or a request may be sent into a closed one.
	idleTimeout = 3 * time.Minute
	// mostHeaderBytes is what nginx passes on of a client by default, with room for what the proxy adds.
	mostHeaderBytes = 40 << 10
	// Grace is how long requests that have begun may take after Serve's context has ended.
	Grace = 10 * time.Second
)

// Limiter decides, and shows what it has decided: a *shadow.Harness or a *shadow.Pair.
type Limiter interface {
	httplimit.Decider
	prometheus.Collector
	StatusPage() http.Handler
}

// Config configures a Server.
type Config struct {
	// Limiter decides. It is required, and stays the caller's.
	Limiter Limiter
	// Route returns the template of the route of a path, "" if there is none, for requests that do not name theirs.
	// nil means that no route is known.
	Route func(path string) string
	// Proxies are the addresses of proxies on other machines. Peers on this one are believed always.
	Proxies []netip.Prefix
	// Token, if set, must come with every question over TCP. A Unix socket has its permissions instead.
	Token string
	// TLS, if set, is used for every connection over TCP.
	TLS *tls.Config
	// Shows says that no question is answered, and that only operators are: there is nothing to decide.
	Shows bool
	// Metrics, if set, are shown beside those of the limiter.
	Metrics prometheus.Collector
	// Settings are those of a middleware, for what clients are told. ClientIP is not used.
	Settings httplimit.Settings
	// Logger receives mistakes in the setup of proxies; nil means slog.Default().
	Logger *slog.Logger
}

// Server answers questions. It is safe for concurrent use.
type Server struct {
	cfg    Config
	limits *httplimit.Limits
	token  token
	client func(*http.Request) string // the client's address behind the proxies
	routes bool                       // the configuration knows routes
	ending atomic.Bool                // no further questions should come
	warned complaints
}

// New returns a server for the configuration.
func New(cfg Config) *Server {
	routes := cfg.Route != nil
	if !routes {
		cfg.Route = func(string) string { return "" }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}

	s := &Server{cfg: cfg, limits: httplimit.NewLimits(cfg.Limiter, cfg.Settings), token: tokenOf(cfg.Token)}
	s.client = httplimit.ForwardedFor(append(loopback[:len(loopback):len(loopback)], cfg.Proxies...)...)
	s.warned.log, s.routes = cfg.Logger, routes
	return s
}

// Serve answers questions on all listeners until the context ends or a listener fails, and closes them. Requests that
// have begun are finished then, for Grace at most. It returns nil if the context has ended and no request was cut off.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	server := s.httpServer()
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- s.accept(server, l) }()
	}

	var failure error
	remaining := len(listeners)
	select {
	case <-ctx.Done():
	case failure = <-ended:
		remaining--
	}

	// A load balancer that still asks is told to send no more.
	s.ending.Store(true)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), Grace)
	defer cancel()
	err := server.Shutdown(last)
	if err != nil {
		server.Close() // requests that wait for a turn would otherwise go on
	}

	for range remaining {
		<-ended
	}
	return errors.Join(failure, err)
}

// accept serves one listener. TLS is for connections that may come from elsewhere.
func (s *Server) accept(server *http.Server, l net.Listener) error {
	var err error
	if s.cfg.TLS != nil && !isUnix(l.Addr()) {
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(l)
	}

	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *Server) httpServer() *http.Server {
	return &http.Server{
		Handler:           s.handler(),
		TLSConfig:         s.cfg.TLS.Clone(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    mostHeaderBytes,
		ConnContext:       noteUnix,
		ErrorLog:          log.New(&s.warned, "", 0),
	}
}
