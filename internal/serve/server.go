package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
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
	Settings limits.Settings
	// Logger receives mistakes in the setup of proxies; nil means slog.Default().
	Logger *slog.Logger
}

// Server answers questions. It is safe for concurrent use.
type Server struct {
	cfg    Config
	limits *limits.Limits
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

	s := &Server{cfg: cfg, limits: limits.New(cfg.Limiter, cfg.Settings), token: tokenOf(cfg.Token)}
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

// named refuses what a program on this machine asks for by the name of another one. A web page whose name its owner has made to lead to
// 127.0.0.1 (DNS rebinding) is to a browser of the same site as this server: it could read the keys of clients, and use up their budgets.
// With a token it cannot. Proxies ask with the names of their clients, and so do machines of a network by the name of this one.
func (s *Server) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if s.token == nil && ok && at.IP.IsLoopback() && !ofThisMachine(r.Host) {
			http.Error(w, "shadowlimit: this server listens on this machine only, and was asked for by the name of another one: "+
				"ask for localhost or an address, or give the server a token", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check answers POST /v1/check: one request, or a list of them, which are charged in their order.
func (s *Server) check(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	requests, single, err := requestsOf(text)
	if err != nil {
		s.refuse(w, r, err)
		return
	}

	// The client may leave meanwhile. It is charged all the same, as in the middleware.
	answers := make([]answer, len(requests))
	for i, p := range requests {
		answers[i] = s.decide(r, p)
	}

	if single {
		writeJSON(w, http.StatusOK, &answers[0])
		return
	}
	writeJSON(w, http.StatusOK, answers)
}

func (s *Server) decide(r *http.Request, p *policies.Request) answer {
	if p.Route == "" {
		p.Route = s.cfg.Route(cleanPath(p.Path))
	}
	if p.Time.IsZero() {
		p.Time = time.Now()
	}

	d := s.limits.Decide(r.Context(), p)
	return answerOf(d, s.limits.FieldsOf(&d))
}

// settle answers POST /v1/settle: the final cost of a request that was checked, here or by another server of the same policies.
func (s *Server) settle(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	q, err := settlementOf(text)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	by, ok := s.cfg.Limiter.(settler)
	if !ok {
		s.refuse(w, r, errors.New("this server has no policies, so nothing settles"))
		return
	}

	switch err := by.SettleToken(r.Context(), q.Token, *q.Cost); {
	case err == nil:
		writeJSON(w, http.StatusOK, map[string]bool{"settled": true})
	case errors.Is(err, shadow.ErrToken):
		s.refuse(w, r, fmt.Errorf("token: want the settle of an answer to a check: %w", err))
	case errors.Is(err, shadow.ErrSettled):
		writeJSON(w, http.StatusConflict, map[string]string{"error": fmt.Sprintf("%.*s", mostMessage, err)})
	default:
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": fmt.Sprintf("%.*s", mostMessage, err)})
	}
}

// proxied answers the question of a proxy: 204, or the status of the form.
func (s *Server) proxied(f form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if overUnix(r) {
			r.RemoteAddr = thisMachine
		}
		if !s.believes(r) {
			s.refuseProxy(w, r, errPeer)
			return
		}
		if !s.routes && s.limits.NeedsRoute() {
			s.refuseProxy(w, r, errRoutes)
			return
		}
		o, err := f.originalOf(r.Header)
		if err != nil {
			s.refuseProxy(w, r, err)
			return
		}

		p := s.limits.Request()
		o.fill(p, s.cfg.Route)
		p.Headers = r.Header
		p.IP = s.client(r)
		p.Time = time.Now()
		d := s.limits.Decide(r.Context(), p)
		s.answerProxy(w, r, &f, d)
	}
}

// believes reports whether the peer is a proxy whose headers are believed.
func (s *Server) believes(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	has := func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap().WithZone("")) }
	return slices.ContainsFunc(loopback, has) || slices.ContainsFunc(s.cfg.Proxies, has)
}

// answerProxy answers a question that was decided. The response fields are those for the proxy's client.
func (s *Server) answerProxy(w http.ResponseWriter, r *http.Request, f *form, d shadow.Decision) {
	s.limits.WriteFields(w.Header(), &d)
	w.Header().Set("Cache-Control", "no-store")
	if !d.Allowed {
		http.Error(w, "too many requests", f.denied)
		return
	}

	// The time for the answer begins after the wait.
	if d.Delay > 0 {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d.Delay + writeTimeout))
	}
	if err := s.limits.Wait(r.Context(), d.Delay); err != nil {
		w.Header().Set("Retry-After", limits.FormatSeconds(limits.RetryWhenFull(d)))
		http.Error(w, "too many requests are waiting", f.full)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refuseProxy answers a question that says nothing of a request. A proxy makes an error of the status 500: a mistake in
// the setup must be seen at the first request, because a limit that is never asked looks like one that never denies.
func (s *Server) refuseProxy(w http.ResponseWriter, r *http.Request, err error) {
	var setup setupError
	if !errors.As(err, &setup) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	s.warned.say("a proxy is not set up, so its requests are refused", "peer", r.RemoteAddr, "path", r.URL.Path, "because", setup.message)
	http.Error(w, "shadowlimit: the proxy is not set up: "+setup.message, http.StatusInternalServerError)
}

// refuse answers a question that cannot be read. Its author is a programmer, so it is worded for one.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
		status = http.StatusRequestEntityTooLarge
		err = fmt.Errorf("the body has over %d bytes", mostBody)
	}

	// A name of a field that is shown may be as long as the request.
	message := fmt.Sprintf("%.*s", mostMessage, err)
	s.warned.say("a check cannot be read, so nothing is charged", "peer", r.RemoteAddr, "error", message)
	writeJSON(w, status, map[string]string{"error": message})
}
