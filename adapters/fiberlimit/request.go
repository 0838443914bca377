package fiberlimit

import (
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/shadowlimit/shadowlimit/internal/view"
	"github.com/shadowlimit/shadowlimit/policies"
)

// see sets what policies read of a request. fasthttp's texts change with the next request of the connection, and keys
// outlive this one: each text that a policy reads is copied, and no other.
func (l *middleware) see(c fiber.Ctx, v *view.View) {
	fast := c.RequestCtx()
	p, r := &v.Seen, &fast.Request
	p.Route = c.FullPath() // the route's own text
	p.Method = c.Method()  // one of fiber.Config.RequestMethods
	reading := l.Reading()
	if l.cfg.Identify != nil || reading.Time {
		p.Time = time.Now()
	}
	if l.cfg.Identify != nil || reading.Size {
		p.Size = sizeOf(r)
	}
	if reading.Path {
		p.Path = string(r.URI().Path())
	}
	if reading.Host {
		p.Host = string(r.Host())
	}
	if reading.Query {
		p.RawQuery = string(r.URI().QueryString())
	}

	// A hook may ask for any header, and a policy for one whose name is computed.
	if reading.OtherHeaders || l.cfg.ClientIP != nil {
		addAll(&r.Header, v.All())
	} else {
		v.Name(reading.Names, func(list []string, name policies.HeaderName) []string {
			for _, value := range r.Header.PeekAll(name.Canonical) {
				list = view.AppendText(list, value)
			}
			return list
		})
	}

	if reading.IP {
		p.IP = v.Address(fast.RemoteAddr(), l.cfg.ClientIP)
	}
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

func addAll(from *fasthttp.RequestHeader, h http.Header) {
	for name, value := range from.All() {
		h.Add(string(name), string(value))
	}
	h.Del("Host")
}
