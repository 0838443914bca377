package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/policies"
)

// requests makes requests of what a log has of them, and notes which of the fields that expressions read it never has.
type requests struct {
	routes   *routes
	mapped   map[string]string // --map, by the field of the request
	unmapped map[string]bool   // fields of --map that no line has had
	unseen   map[string]string // fields that expressions read and no line has had, as they are written there

	unsettled    int64 // checks whose final cost the log does not say
	whyUnsettled error // of the first

	headers bool // an expression reads headers; requests are made without them otherwise
}

// entry turns request.headers["x-tenant"] into headers.x-tenant.
var entry = strings.NewReplacer("request.", "", `["`, ".", `"]`, "")

// expect notes what expressions read. Every line has a time, and the path stands in for the route, of which route warns.
func (r *requests) expect(inputs []string) {
	for _, input := range inputs {
		switch name := entry.Replace(input); name {
		case "time", "path", "headers", "claims":
		default:
			r.unseen[name] = input
		}
	}
}

// of makes a request of the fields that a log has. A log knows no routes: the route is the path unless the log has one, or
// --route names it.
func (r *requests) of(e accesslog.Event) *policies.Request {
	field := func(name string) string {
		text, _ := e.Field(name)
		return text
	}
	request := &policies.Request{
		Method: field("method"), Path: field("path"), Route: field("route"), Host: field("host"), RawQuery: field("query"),
		IP: field("ip"), User: field("user"), Time: time.UnixMicro(e.At).UTC(), Size: -1,
	}
	if size := field("size"); size != "" {
		if n, err := strconv.ParseInt(size, 10, 64); err == nil {
			request.Size = n
		}
	}

	if r.headers {
		request.Headers = headersOf(e)
	}
	for name := range r.mapped {
		if claim, ok := strings.CutPrefix(name, "claims."); ok {
			if request.Claims == nil {
				request.Claims = map[string]any{}
			}
			request.Claims[claim] = field(name)
		}
		r.proxied(request, name, field(name))
	}

	r.note(e, request)
	switch {
	case request.Route != "":
	case r.routes != nil:
		request.Route = r.routes.of(request.Path)
	default:
		request.Route = request.Path
	}
	return request
}

// headersOf returns the headers of a line. Names that differ only in case are one header. Sorting makes the choice the same
// in every run.
func headersOf(e accesslog.Event) http.Header {
	headers, under := http.Header{}, e.Under("headers")
	for _, name := range slices.Sorted(maps.Keys(under)) {
		headers.Set(name, under[name])
	}
	return headers
}

// proxied sets what a proxy says of a request beside the request itself, if that is the field of --map. A log that happens to
// have a field of such a name changes nothing.
func (r *requests) proxied(request *policies.Request, name, text string) {
	if key, ok := strings.CutPrefix(name, "descriptors."); ok && text != "" {
		if request.Descriptors == nil {
			request.Descriptors = map[string]string{}
		}
		request.Descriptors[key] = text
	}

	switch name {
	case "domain":
		request.Domain = text
	case "cost":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			request.Cost = &n
		}
	}
}

// note strikes out the fields that a request has. Soon none is left, so it costs little.
func (r *requests) note(e accesslog.Event, request *policies.Request) {
	for name := range r.unmapped {
		if _, ok := e.Field(name); ok {
			delete(r.unmapped, name)
		}
	}

	for name := range r.unseen {
		parameter, isParameter := strings.CutPrefix(name, "query.")
		header, isHeader := strings.CutPrefix(name, "headers.")
		found := false
		switch {
		case isParameter:
			found = strings.Contains(request.RawQuery, parameter+"=")
		case isHeader:
			found = request.Headers.Get(header) != ""
		default:
			_, found = e.Field(name)
		}
		if found {
			delete(r.unseen, name)
		}
	}
}

// refuse is an error if a field of --map is in no line: the flag would have no effect.
func (r *requests) refuse() error {
	for _, name := range slices.Sorted(maps.Keys(r.unmapped)) {
		return usagef("name a field as the lines of the log have it", "--map request.%s=%s: no line of the log has the field %s",
			name, r.mapped[name], r.mapped[name])
	}
	return nil
}

// warnings say which fields of expressions the log lacks.
func (r *requests) warnings() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(r.unseen)) {
		switch {
		case name != "route":
			list = append(list, fmt.Sprintf("no line of the log has %s, which an expression reads: "+
				"--map request.%s=FIELD names the field that has it", r.unseen[name], name))
		case r.routes == nil:
			list = append(list, "the log has no routes, so request.route is the path: name routes by --route, such as --route '/orders/{id}'")
		}
	}
	if text := r.routes.warning(); text != "" {
		list = append(list, text)
	}
	if r.unsettled > 0 {
		list = append(list, fmt.Sprintf("the log does not say the final cost of %s, which stay as they were charged; the first: %v",
			humanize.Counted(r.unsettled, "check"), r.whyUnsettled))
	}
	return list
}
