package serve

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/shadowlimit/shadowlimit/policies"
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

var (
	errPeer   = setupError{"it is on another machine, and no --proxy has its address"}
	errRoutes = setupError{"policies read request.route, which it does not know: give the templates by --route"}
)

// Headers in which proxies write what they have received of their client. nginx has no names of its own: its snippet sets
// them. A form reads its own names and no others, because a proxy overwrites only the names that it writes.
const (
	forwardedFor    = "X-Forwarded-For"
	forwardedHost   = "X-Forwarded-Host"
	forwardedMethod = "X-Forwarded-Method"
	forwardedURI    = "X-Forwarded-Uri"
	originalMethod  = "X-Original-Method"
	originalURI     = "X-Original-Uri"
)

// original is the request that a proxy has received.
type original struct {
	method, host string
	url          *url.URL
}

// originalOf reads the headers of a proxy. An error of the setup is the operator's to mend; any other is the client's.
func (f *form) originalOf(h http.Header) (original, error) {
	var texts [3]string
	for i, name := range []string{f.method, f.uri, forwardedHost} {
		values := h[name]
		if len(values) != 1 {
			return original{}, setupError{fmt.Sprintf("it sends %d headers %s, want one", len(values), name)}
		}
		texts[i] = values[0]
	}

	// Without it all clients would share the budget of the proxy's address.
	if len(h[forwardedFor]) == 0 {
		return original{}, setupError{"it sends no header " + forwardedFor}
	}

	// A fragment is no part of a request. A proxy chooses its location without one, and may pass it on or not.
	target, _, _ := strings.Cut(texts[1], "#")
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return original{}, errNoURI
	}
	return original{texts[0], texts[2], u}, nil
}

var errNoURI = errors.New("the address of the request cannot be read")

// setupError says why the setup of a proxy is wrong.
type setupError struct{ message string }

func (e setupError) Error() string { return e.message }

// fill makes a request for policies of it. The size of a body is unknown: no proxy sends it.
func (o *original) fill(p *policies.Request, route func(string) string) {
	p.Method = o.method
	p.Host = o.host
	p.RawQuery = o.url.RawQuery
	p.Size = -1
	p.Path = cleanPath(o.url.Path)

	// A proxy may take an escaped slash for a part of a segment.
	if p.Route = route(p.Path); p.Route == "" && o.url.RawPath != "" {
		p.Route = route(cleanPath(o.url.RawPath))
	}
}

// cleanPath returns a path as proxies choose a location by it: without dot segments and doubled slashes. Otherwise a
// client could leave a policy by another spelling of a path that is served all the same.
func cleanPath(p string) string {
	if !strings.HasPrefix(p, "/") {
		return p
	}

	cleaned := path.Clean(p)
	if cleaned != "/" && (strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, "/..")) {
		cleaned += "/"
	}
	return cleaned
}
