package httplimit

import (
	"net/http"
	"strings"
)

// MuxRoute returns a resolver for services whose requests an *http.ServeMux routes
// somewhere behind the middleware: the pattern's path, without method and host.
func MuxRoute(mux *http.ServeMux) func(*http.Request) string {
	return func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return template(pattern)
	}
}

// routeOf returns what knows the next handler's routes: the mux that it is, or else
// the one that the request has come through. Where there is neither, and policies ask
// for routes, it says so once: they would never match.
func (m *middleware) routeOf(next http.Handler) func(*http.Request) string {
	if mux, ok := next.(*http.ServeMux); ok {
		return MuxRoute(mux)
	}
	return func(r *http.Request) string {
		if r.Pattern == "" && !m.blind.Load() && m.harness.Policies().ReadsRoutes && !m.blind.Swap(true) {
			m.cfg.Logger.Warn("shadowlimit: policies ask for request.route, and it is not known: set httplimit.Config.Route, such as httplimit.MuxRoute(mux)")
		}
		return template(r.Pattern)
	}
}

// template leaves the method and the host out of a pattern of http.ServeMux.
func template(pattern string) string {
	if i := strings.IndexByte(pattern, '/'); i > 0 {
		return pattern[i:]
	}
	return pattern
}
