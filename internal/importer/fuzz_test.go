package importer

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// oneFile is a disk with one file, which includes cannot leave.
func oneFile(name, text string) *disk {
	d := newDisk()
	d.glob = func(string) ([]string, error) { return nil, nil }
	d.open = func(asked string) (io.ReadCloser, error) {
		if asked != name {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
	return d
}

// holdsUp imports any text: it ends, and what comes of it is a file that a service takes, with a place for each part.
func holdsUp(t *testing.T, peer, name, text string) {
	t.Helper()
	in, err := readFrom(oneFile(name, text), peer, []string{name}, "")
	if err == nil {
		if _, err := policies.Load(name, []byte(in.File)); err != nil {
			t.Errorf("%q becomes a file that is not valid: %v\n%s", text, err, in.File)
		}
		if peer != "envoy" {
			mustBeOff(t, in)
		}
	}

	var refused *Error
	if err != nil && !errors.As(err, &refused) && !errors.Is(err, ErrNothing) {
		t.Errorf("%q: %v: want a place", text, err)
	}
	if in == nil {
		return
	}
	for _, l := range in.LeftOut {
		if l.Line < 1 || l.File == "" || l.What == "" || l.Why == "" {
			t.Errorf("%q: left out without a place or a reason: %+v", text, l)
		}
	}
}

func FuzzNginx(f *testing.F) {
	for _, seed := range []string{
		"limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s; limit_req zone=a burst=2;",
		`http { map $http_x $k { default 1; a ""; ~b 2; } limit_req_zone $k zone=a:1m rate=70r/m; 
		server { location ~ ^/x { limit_req zone=a; } } }`,
		`geo $a { default 1; 10.0.0.0/8 0; ::1 2; } limit_req_zone x$a zone=a rate=5r/s;
		server { server_name a b.*; } server { location /x/ { limit_req zone=a delay=1 burst=3; } }`,
		"map $a $b { a $b; } limit_req_zone $b zone=a rate=1r/s; limit_req zone=a;",
		"a 'b\\'c' \"d${e}\" #f\n; x_by_lua_block { {} } include a/*.conf;",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { holdsUp(t, "nginx", "nginx.conf", text) })
}

func FuzzTrees(f *testing.F) {
	for _, seed := range []string{
		"plugins: [{ name: rate-limiting, config: { second: 5, limit_by: header, header_name: x } }]\nroutes: [{ name: r, paths: [~/a] }]",
		"- { namespace: a, max_value: 10, seconds: 60, conditions: [\"descriptors[0]['x'] == 'y'\"], variables: [user.name] }",
		"domain: d\ndescriptors: [{ key: a, value: b*, rate_limit: { unit: day, requests_per_unit: 1 }, descriptors: [{ key: c }] }]",
		"http: { routers: { r: { rule: \"!Path(`/a`) && (Host(`b`))\", middlewares: [m] } }, " +
			"middlewares: { m: { rateLimit: { average: 7, period: 3s } } } }",
		"[http.middlewares.a.rateLimit]\naverage = 10\nperiod = \"1m\"\n[[a.b]]\nc = { d = [1, 2] }\n",
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		for _, peer := range []string{"kong", "limitador", "envoy", "traefik"} {
			holdsUp(t, peer, "f.yaml", text)
		}
		holdsUp(t, "traefik", "f.toml", text)
	})
}

func FuzzHAProxy(f *testing.F) {
	for _, seed := range []string{
		"frontend a\n stick-table type ip store http_req_rate(10s)\n http-request track-sc0 src\n" +
			" http-request deny if { sc_http_req_rate(0) gt 20 }",
		"listen a\n acl b path_beg -i /x\\ y \"z\"\n stick-table store http_req_rate(1m)\n" +
			" http-request deny if { src_http_req_rate gt 3 } !b\n" +
			" http-request track-sc0 src,ipmask(24) table a if b or TRUE",
		"defaults d\n acl c hdr(x) -m reg ^a\nfrontend f from d\n use_backend b if c\nbackend b\n" +
			" http-request deny unless { sc0_http_req_rate le 2 }",
		"peers p\n table t type ip store http_req_rate(5)\nfrontend f\n tcp-request content track-sc1 hdr(x) table p/t\n.if x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { holdsUp(t, "haproxy", "haproxy.cfg", text) })
}
