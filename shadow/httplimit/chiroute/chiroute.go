// Package chiroute tells httplimit the routes of a chi router: set httplimit.Config.Route to Of(router).
//
// It is a package of its own so that services without chi do not compile it. See Of for the order of middleware that it
// needs.
package chiroute

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// Of returns a resolver for httplimit.Config.Route. It returns the pattern that the router, or one mounted in it, will
// match, such as /items/{id}, and "" if there is none. It looks the route up before the request is routed, and writes
// it as chi's RoutePattern does.
//
// Middleware that changes the routed path or method, such as chi's StripSlashes, CleanPath and GetHead, must come
// first: add httplimit's middleware after it, with router.Use. In front of the router, httplimit sees the request as
// the client sent it, and /items/1/ would be served as /items/{id} without being charged as such.
func Of(router chi.Routes) func(*http.Request) string {
	return func(r *http.Request) string {
		method, path := asRouted(r)
		return normalized(router.Find(chi.NewRouteContext(), method, path))
	}
}

// asRouted returns the method and path that chi will look up.
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

	// Middleware in front may have set both. Within a mounted router the path is only the rest, which the outermost
	// router does not know.
	if c.RouteMethod != "" {
		method = c.RouteMethod
	}
	if c.RoutePath != "" && len(c.RoutePatterns) == 0 {
		path = c.RoutePath
	}

	return method, path
}

// normalized returns the pattern as chi.Context.RoutePattern writes it. Otherwise /v1 and /v1/, which are the same to a
// mounted router, would be two routes.
func normalized(pattern string) string {
	for strings.Contains(pattern, "/*/") {
		pattern = strings.ReplaceAll(pattern, "/*/", "/")
	}

	if pattern == "/" {
		return pattern
	}
	return strings.TrimSuffix(strings.TrimSuffix(pattern, "//"), "/")
}
