package demo

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/sample"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Request is one request of a log. Its Time is its instant.
type Request = policies.Request

// readTraffic returns the requests of the bundled log in the order of time.
func readTraffic() ([]*Request, error) {
	var list []*Request
	_, err := accesslog.Read(bytes.NewReader(sample.Log()), "bundled log", accesslog.Config{}, func(e accesslog.Event) error {
		list = append(list, &Request{Method: http.MethodGet, Path: "/", IP: string(e.Key), Size: -1, Time: time.UnixMicro(e.At).UTC()})
		return nil
	})

	inOrder(list)
	return list, err
}

// inOrder sorts requests by their instants; those of one instant stay in the order of the log.
func inOrder(list []*Request) {
	slices.SortStableFunc(list, func(a, b *Request) int { return cmp.Compare(a.Time.UnixMicro(), b.Time.UnixMicro()) })
}

// identify gives a request that came over the network the fields of the one in the log that it stands for. All clients of the demo are
// in this process, and the wire would change some of those fields. A broken one has the header of the regression, too.
func identify(into, from *Request, broken http.Header) {
	into.Method, into.Path, into.Route, into.Host, into.RawQuery = from.Method, from.Path, from.Route, from.Host, from.RawQuery
	into.IP, into.User, into.Claims, into.Size, into.Time = from.IP, from.User, from.Claims, from.Size, from.Time
	into.Headers = from.Headers

	if broken != nil {
		into.Headers = from.Headers.Clone()
		if into.Headers == nil {
			into.Headers = http.Header{}
		}
		for name, values := range broken {
			into.Headers[name] = values
		}
	}
}
