package httplimit

import (
	"net/http"
	"strings"
)

// MuxRoute returns a resolver for services in which an *http.ServeMux routes requests somewhere behind the middleware.
// The route is the path of the mux's pattern, without method and host.
func MuxRoute(mux *http.ServeMux) func(*http.Request) string {
	return func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return template(pattern)
	}
}

// routeOf returns the resolver of Config.Route's zero value: it asks the next handler if that is a mux, and else uses
// the pattern of the mux that the request has come through. If there is neither, and policies use routes, it logs one
// warning, because these policies never match.
func (m *middleware) routeOf(next http.Handler) func(*http.Request) string {
	if mux, ok := next.(*http.ServeMux); ok {
		return MuxRoute(mux)
	}

	// The policies are asked at each request until the warning, because a reload may bring the first that uses routes.
	return func(r *http.Request) string {
		if r.Pattern == "" && !m.warnedRoutes.Load() && m.NeedsRoute() && !m.warnedRoutes.Swap(true) {
			m.cfg.Logger.Warn("shadowlimit: policies use request.route, but the middleware does not know the routes," +
				" so these policies never match: set httplimit.Config.Route, for example to httplimit.MuxRoute(mux)")
		}
		return template(r.Pattern)
	}
}

// template returns the path of a pattern of http.ServeMux, without method and host.
func template(pattern string) string {
	if i := strings.IndexByte(pattern, '/'); i > 0 {
		return pattern[i:]
	}

	return pattern
}
