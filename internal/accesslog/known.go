package accesslog

import (
	"cmp"
	"slices"
	"strings"
)

// requestField is a field of a request, which logs have under many names.
type requestField int

const (
	ofIP requestField = iota
	ofMethod
	ofTarget // a path, a path with its query, or a URL
	ofQuery
	ofHost
	ofUser
	ofSize
	ofRoute
	ofLine   // GET /path HTTP/1.1
	ofStatus // of the answer
	ofProxy  // the address that the PROXY protocol brought, beside that of the connection
	fieldCount
)

// knownNames are the names of each field, the best first: policies', then the names of
// nginx, Caddy, Traefik, Envoy, the Elastic Common Schema, Google Cloud, W3C (IIS, CloudFront), Zeek, API gateways, Cloudflare.
var knownNames = [fieldCount][]string{
	ofIP: {
		"ip", "client.ip", "source.ip", "remote_addr", "request.client_ip", "client_ip", "request.remote_ip", "remote_ip",
		"clientip", "clientIp", "ClientHost", "ClientAddr", "httpRequest.remoteIp", "remoteIp", "downstream_remote_address",
		"downstream_direct_remote_address", "c-ip", "id.orig_h", "ClientIP", "client.address", "source.address",
		"remote_address", "request.remote_addr", "httpRequest.clientIp", "src_ip", "sourceIp", "remote_host", "client_addr", "client",
	},
	ofMethod: {
		"method", "request_method", "request.method", "http.request.method", "httpRequest.requestMethod", "RequestMethod",
		"cs-method", "http_method", "httpMethod", "ClientRequestMethod", "httpRequest.httpMethod", "verb", "requestMethod",
	},
	ofTarget: {
		"path", "request_uri", "request.uri", "url.original", "url.path", "RequestPath", "httpRequest.requestUrl",
		"cs-uri-stem", "uri", "ClientRequestURI", "request_path", "requestPath", "requestUrl", "url", "request_url", "httpRequest.uri",
	},
	ofQuery: {"query", "args", "query_string", "url.query", "cs-uri-query", "request.querystring", "httpRequest.args"},
	ofHost: {
		"host", "http_host", "request.host", "url.domain", "RequestHost", "authority", ":authority", "x-host-header", "cs-host",
		"cs(Host)", "ClientRequestHost", "vhost", "server_name",
	},
	ofUser: {"user", "remote_user", "user.name", "ClientUsername", "cs-username", "user_id", "username"},
	// Caddy has the size of the answer in size, and of the request in bytes_read.
	ofSize: {
		"bytes_read", "http.request.body.bytes", "RequestContentSize", "bytes_received", "request_body_len", "size",
		"httpRequest.requestSize",
	},
	ofRoute: {"route", "http.route", "resourcePath"},
	ofLine:  {"request", "request_line"},
	ofStatus: {
		"status", "response.status", "http.response.status_code", "httpRequest.status", "DownstreamStatus", "sc-status", "status_code",
		"response_code", "EdgeResponseStatus", "elb_status_code", "statusCode", "responseStatus", "http_status",
	},
	ofProxy: {"proxy_protocol_addr"},
}

// knownHeaders are headers that logs have under names of their own.
var knownHeaders = map[string]string{
	"user_agent": "user-agent", "useragent": "user-agent", "userAgent": "user-agent", "agent": "user-agent",
	"user_agent.original": "user-agent", "httpRequest.userAgent": "user-agent", "ClientRequestUserAgent": "user-agent",
	"referer": "referer", "referrer": "referer", "http.request.referrer": "referer", "httpRequest.referer": "referer",
	"x_forwarded_for": "x-forwarded-for", "x-forwarded-for": "x-forwarded-for", "X-Forwarded-For": "x-forwarded-for",
	"xff": "x-forwarded-for", "forwarded_for": "x-forwarded-for",
}

// place is what a name stands for: a field, and how good the name is for it, 0 the best.
type place struct {
	field requestField
	rank  int
}

var (
	knownPlaces  = map[string]place{}
	knownParents = map[string]bool{"headers": true, "request.headers": true, "http.request.headers": true}
)

// Names with dots are looked for in nested objects, too, so their beginnings are noted.
func init() {
	note := func(name string) {
		for i := range len(name) {
			if name[i] == '.' {
				knownParents[name[:i]] = true
			}
		}
	}

	for field, names := range knownNames {
		for rank, name := range names {
			knownPlaces[name] = place{requestField(field), rank}
			note(name)
		}
	}
	for _, name := range []string{"request.headers.x", "http.request.headers.x", "user_agent.original", "http.request.referrer"} {
		note(name)
	}
}

// headerNamed returns the header that a name stands for, and how good the name is: 0 the best.
func headerNamed(name string) (header string, rank int, found bool) {
	for rank, prefix := range []string{"headers.", "request.headers.", "http.request.headers."} {
		if h, ok := strings.CutPrefix(name, prefix); ok && h != "" {
			return h, rank, true
		}
	}
	if h, ok := knownHeaders[name]; ok {
		return h, 9, true
	}

	// nginx: http_user_agent. Traefik: request_User-Agent, beside which nginx has request_method and the like. W3C: cs(User-Agent).
	if h, ok := strings.CutPrefix(name, "http_"); ok && name != "http_method" && h != "" {
		return strings.ReplaceAll(h, "_", "-"), 3, true
	}
	if h, ok := strings.CutPrefix(name, "request_"); ok && h != "" && h[0] >= 'A' && h[0] <= 'Z' {
		return h, 4, true
	}
	if h, ok := strings.CutPrefix(name, "cs("); ok && strings.HasSuffix(h, ")") {
		return strings.TrimSuffix(h, ")"), 5, true
	}
	return "", 0, false
}

// ranked is a value and how good its name is for it, so that the order of a line's fields does not matter.
type ranked struct {
	value, name string
	rank        int
}

func (r *ranked) better(rank int, name string) bool {
	return r.name == "" || cmp.Or(cmp.Compare(rank, r.rank), strings.Compare(name, r.name)) < 0
}

// known finds the fields of a request in a line by the names that they are known by.
type known struct {
	lookup
	uses    uses
	fields  [fieldCount]ranked
	headers map[string]ranked // by their names in lower case
}

// use is what the name of a log's field says about a request. The zero value is a name that says nothing.
type use struct {
	isField, isHeader bool
	place             place
	header            string // in lower case
	rank              int    // of the header's name
}

// useOf looks a name up. It is slow, so a log looks each of its names up once.
func useOf(name string) (u use) {
	u.place, u.isField = knownPlaces[name]
	u.header, u.rank, u.isHeader = headerNamed(name)
	u.header = strings.ToLower(u.header)
	return u
}

func (u use) any() bool { return u.isField || u.isHeader }

// put notes a field of the line. Servers write a minus for one that a request lacks.
func (k *known) put(u use, name, value string) {
	if value == "" || value == "-" {
		return
	}

	if p := u.place; u.isField && k.fields[p.field].better(p.rank, name) {
		k.fields[p.field] = ranked{value, name, p.rank}
	}
	if u.isHeader {
		if k.headers == nil {
			k.headers = map[string]ranked{}
		}
		if now := k.headers[u.header]; now.better(u.rank, name) {
			k.headers[u.header] = ranked{value, name, u.rank}
		}
	}
}

// uses remembers what the names of a log's fields say.
type uses map[string]use

// maxUses bounds the names that are remembered: a log may have a new one in every line.
const maxUses = 10_000

func (m uses) of(name string) use {
	u, found := m[name]
	if !found {
		if u = useOf(name); len(m) < maxUses {
			m[name] = u
		}
	}
	return u
}

// finish works out what other fields imply, when all fields are put.
func (k *known) finish(clients *clients) {
	if line := strings.Fields(k.fields[ofLine].value); len(line) >= 2 {
		k.imply(ofMethod, line[0])
		k.imply(ofTarget, line[1])
	}

	host, path, query := target(k.fields[ofTarget].value)
	k.fields[ofTarget].value = path
	k.imply(ofHost, host)
	k.imply(ofQuery, query)
	if k.fields[ofIP].value != "" {
		k.fields[ofIP].value = clients.find(k.fields[ofIP].value, k.forwarded())
	}
	if h := k.headers["host"]; h.value != "" {
		k.imply(ofHost, h.value)
	}
}

// forwarded is the list of the clients that proxies name, the nearest last: X-Forwarded-For, or else Forwarded, and the address of the
// PROXY protocol behind it, which the proxy that is the peer has sent.
func (k *known) forwarded() string {
	list := k.headers["x-forwarded-for"].value
	if list == "" {
		list = forwardedFor(k.headers["forwarded"].value)
	}
	if behind := k.fields[ofProxy].value; behind != "" && list != "" {
		return list + ", " + behind
	}
	return list + k.fields[ofProxy].value
}

func (k *known) imply(field requestField, value string) {
	if k.fields[field].value == "" && value != "-" {
		k.fields[field].value = value
	}
}

// text prefers the fields of a request; any other name is one of the line.
func (k *known) text(name string) (string, bool) {
	if field := slices.Index(policyNames, name); field >= 0 {
		v := k.fields[field].value
		return v, v != ""
	}
	if header, ok := strings.CutPrefix(name, "headers."); ok {
		if h, found := k.headers[strings.ToLower(header)]; found {
			return h.value, true
		}
	}
	return k.lookup.text(name)
}

// policyNames are the names by which a policy asks for fields, by requestField.
var policyNames = []string{
	ofIP: "ip", ofMethod: "method", ofTarget: "path", ofQuery: "query", ofHost: "host", ofUser: "user", ofSize: "size", ofRoute: "route",
	ofLine: "", ofStatus: "status", ofProxy: "",
}

func (k *known) under(name string) map[string]string {
	if name != "headers" {
		return k.lookup.under(name)
	}
	found := make(map[string]string, len(k.headers))
	for header, h := range k.headers {
		found[header] = h.value
	}
	return found
}
