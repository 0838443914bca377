// Package chiroute tells httplimit the routes of a chi router.
package chiroute

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

// Of returns a resolver for httplimit.Config.Route: the pattern that the router, or
// one mounted in it, will match, such as /items/{id}, and "" if there is none. It
// looks the route up before the request is routed, so the middleware may stand
// anywhere in front of the router, or among its own.
func Of(router chi.Routes) func(*http.Request) string {
	return func(r *http.Request) string {
		path := r.URL.RawPath
		if path == "" {
			path = r.URL.Path
		}
		return router.Find(chi.NewRouteContext(), r.Method, path)
	}
}
