package serve

import (
	"errors"
	"net/http"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// form is how a kind of proxy asks.
type form struct {
	method, uri string // the headers with the client's method and address
	denied      int    // the status of a denial
	full        int    // the status if too many requests wait for a turn
}

var (
	// Traefik and Caddy answer their client with the whole response.
	forwardAuth = form{forwardedMethod, forwardedURI, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	// nginx knows 401 and 403; it makes an error of any other status.
	authRequest = form{originalMethod, originalURI, http.StatusForbidden, http.StatusForbidden}
)

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

var (
	errPeer   = setupError{"it is on another machine, and no --proxy has its address"}
	errRoutes = setupError{"policies read request.route, which it does not know: give the templates by --route"}
)

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
		w.Header().Set("Retry-After", httplimit.FormatSeconds(httplimit.RetryWhenFull(d)))
		http.Error(w, "too many requests are waiting", f.full)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
