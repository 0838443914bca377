// Package chiroute tells httplimit the routes of a chi router.
package chiroute

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// Of returns a resolver for httplimit.Config.Route: the pattern that the router, or
// one mounted in it, will match, such as /items/{id}, and "" if there is none. It
// looks the route up before the request is routed, and writes it as chi's
// RoutePattern does.
//
// Middleware that changes what is routed, such as chi's StripSlashes, CleanPath and
// GetHead, must come before: use httplimit's behind it, by router.Use. In front of
// the router the route is that of the request as it came, and /items/1/ would be
// served as /items/{id} without being charged as such.
func Of(router chi.Routes) func(*http.Request) string {
	return func(r *http.Request) string {
		method, path := asRouted(r)
		return written(router.Find(chi.NewRouteContext(), method, path))
	}
}

// asRouted returns what chi will look up. Middleware in front may have said so;
// within a mounted router it is only the rest of the path, which says nothing to the
// router that all are mounted in.
func asRouted(r *http.Request) (method, path string) {
	method, path = r.Method, r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	if path == "" {
		path = "/" // GET http://host
	}
	c := chi.RouteContext(r.Context())
	if c == nil {
		return method, path
	}
	if c.RouteMethod != "" {
		method = c.RouteMethod
	}
	if c.RoutePath != "" && len(c.RoutePatterns) == 0 {
		path = c.RoutePath
	}
	return method, path
}

// written is the pattern as chi.Context.RoutePattern writes it. Else /v1 and /v1/,
// which a mounted router takes for one, would be two routes.
func written(pattern string) string {
	for strings.Contains(pattern, "/*/") {
		pattern = strings.ReplaceAll(pattern, "/*/", "/")
	}
	if pattern == "/" {
		return pattern
	}
	return strings.TrimSuffix(strings.TrimSuffix(pattern, "//"), "/")
}
