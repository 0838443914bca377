// Package chiroute tells httplimit the routes of a chi router.
//
// # Caveats
//
// The limits know a request as the middleware sees it. Middleware of chi's that
// changes paths or methods, such as CleanPath, StripSlashes or GetHead, must stand
// before httplimit in the same router's Use: what stands in front of the router
// cannot know what will become of /items/1/, finds no route, and policies for the
// route do not match.
package chiroute

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

// Of returns a resolver for httplimit.Config.Route: the pattern that the router, or
// one mounted in it, will match, such as /items/{id}, and "" if there is none. The
// middleware stands in front of the router, or among its own.
func Of(router chi.Routes) func(*http.Request) string {
	return func(r *http.Request) string {
		path, method := r.URL.RawPath, r.Method
		if path == "" {
			path = r.URL.Path
		}
		if known := chi.RouteContext(r.Context()); known != nil { // what middleware of the router has made of it
			if known.RoutePath != "" {
				path = known.RoutePath
			}
			if known.RouteMethod != "" {
				method = known.RouteMethod
			}
		}
		route := router.Find(chi.NewRouteContext(), method, path)
		if route == "" && method == http.MethodHead {
			route = router.Find(chi.NewRouteContext(), http.MethodGet, path) // GetHead will do so
		}
		return route
	}
}
