package fiberlimit

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// view is a request of net/http that hooks of httplimit can read. Views are reused with their headers and the values'
// places.
type view struct {
	http.Request
	values []string
}

var views = sync.Pool{New: func() any { return &view{Request: http.Request{Header: http.Header{}}} }}

// giveBack empties a view.
func (v *view) giveBack() {
	clear(v.Header)
	clear(v.values)
	v.values = v.values[:0]
	v.RemoteAddr = ""
	views.Put(v)
}

// fill sets what policies read of a request, in a view that may be given back after the decision. fasthttp's texts
// change with the next request of the connection, and keys outlive this one: each text that a policy reads is
// copied, and no other.
func (l *limits) fill(c fiber.Ctx, p *policies.Request) *view {
	r := &c.RequestCtx().Request
	p.Time = time.Now()
	p.Route = c.FullPath() // fiber's own text of the route
	p.Size = sizeOf(r)
	p.Method = methodOf(c.Method())
	if l.Reads("request.path") {
		p.Path = string(r.URI().Path())
	}
	if l.Reads("request.host") {
		p.Host = string(r.Host())
	}
	if l.Reads("request.query") {
		p.RawQuery = string(r.URI().QueryString())
	}

	// A hook may ask for any header, and a policy for one whose name is computed.
	v := views.Get().(*view)
	names, all := l.HeadersRead()
	if !all || l.cfg.ClientIP != nil {
		addAll(&r.Header, v.Header)
	} else {
		v.addNamed(&r.Header, names)
	}
	p.Headers = v.Header

	if l.Reads("request.ip") {
		p.IP = l.address(c, &v.Request)
	}
	return v
}

// sizeOf returns the length of a body, -1 if its client does not say it.
func sizeOf(r *fasthttp.Request) int64 {
	if n := r.Header.ContentLength(); n >= 0 {
		return int64(n)
	}
	if !r.IsBodyStream() && len(r.Header.Peek("Transfer-Encoding")) == 0 {
		return 0 // a request without a body
	}
	return -1
}

// methodOf returns a text that is not fasthttp's. Usual methods need no copy.
func methodOf(method string) string {
	for _, usual := range [...]string{
		http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodHead, http.MethodOptions,
	} {
		if method == usual {
			return usual
		}
	}
	return strings.Clone(method)
}

// addNamed copies the headers with the names. Host is none: policies have it as a field.
func (v *view) addNamed(from *fasthttp.RequestHeader, names []policies.HeaderName) {
	for _, name := range names {
		values := from.PeekAll(name.Canonical)
		if len(values) == 0 || name.Lower == "host" {
			continue
		}

		n := len(v.values)
		for _, value := range values {
			v.values = append(v.values, string(value))
		}
		v.Header[name.Canonical] = v.values[n:len(v.values):len(v.values)]
	}
}

// addAll copies all headers.
func addAll(from *fasthttp.RequestHeader, h http.Header) {
	for name, value := range from.All() {
		h.Add(string(name), string(value))
	}
	h.Del("Host")
}

// address returns the client's address.
func (l *limits) address(c fiber.Ctx, view *http.Request) string {
	addr := c.RequestCtx().RemoteAddr()

	// Nearly all connections are of TCP: one allocation.
	tcp, isTCP := addr.(*net.TCPAddr)
	if isTCP && l.cfg.ClientIP == nil {
		return tcp.AddrPort().Addr().Unmap().WithZone("").String()
	}

	view.RemoteAddr = addr.String()
	if l.cfg.ClientIP == nil {
		return httplimit.PeerIP(view)
	}
	return l.cfg.ClientIP(view)
}
