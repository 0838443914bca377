package accesslog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
)

// sample is a file of testdata. Most hold the same two requests: GET /a?x=1 of 192.0.2.1, then POST /b of 192.0.2.2.
type sample struct {
	file   string
	format accesslog.Format
	events []string // "instant in microseconds, key"
	fields []string // "method path query host user size agent", for each event; "" is any
}

const getA, postB = "GET /a x=1", "POST /b "

var samples = []sample{
	{
		"common.log", accesslog.Common, []string{"971211336000000 192.0.2.1", "971211337000000 192.0.2.2"},
		[]string{"GET /apache_pb.gif  user=frank", "POST /items id=7"},
	},
	{
		"combined.log", accesslog.Combined,
		[]string{"971211336000000 192.0.2.1", "971211337000000 192.0.2.2", "971211338000000 192.0.2.3"},
		[]string{
			"GET /apache_pb.gif  user=frank headers.referer=http://www.example.com/start.html",
			`GET /say/"hi" q="a" headers.user-agent=a "quoted" agent\`, `GET /say/"hi"  headers.user-agent=an "nginx" agent`,
		},
	},
	{
		"vhost_combined.log", accesslog.VHost, []string{"971211336000000 192.0.2.1", "971211337000000 2001:db8::2"},
		[]string{"GET /a  host=www.example.com:443 user=frank", "POST /b  host=api.example.com:443"},
	},
	{
		"nginx_main.log", accesslog.Combined,
		[]string{"971186136000000 198.51.100.7", "971186137000000 198.51.100.8", "971186138000000 203.0.113.4", "971186139000000 10.0.0.7"},
		[]string{
			"GET /a  headers.x-forwarded-for=198.51.100.7 ip=198.51.100.7", "GET /b  user=bob ip=198.51.100.8",
			"GET /c  headers.x-forwarded-for=1.1.1.1 ip=203.0.113.4", "GET /health  ip=10.0.0.7",
		},
	},
	{
		"nginx_iso.log", accesslog.Combined, []string{"1709283600000000 192.0.2.1", "1709283601000000 192.0.2.2"},
		[]string{"GET /a ", "GET /b "},
	},
	{
		"nginx.jsonl", accesslog.JSONL, twoAt(1709287200_000000, 1709287201_000000),
		[]string{getA + " host=api.example.com headers.x-tenant=acme headers.user-agent=curl/8.5.0", postB + " user=bob"},
	},
	{"nginx_duration.jsonl", accesslog.JSONL, twoAt(1709287200_000000, 1709287201_000000), []string{getA, "GET /b "}},
	{
		"caddy.jsonl", accesslog.JSONL, twoAt(1709287200_524102, 1709287201_250000),
		[]string{getA + " host=api.example.com size=0 headers.x-tenant=acme headers.user-agent=curl/7.82.0", postB + " user=bob size=7"},
	},
	{
		"traefik.jsonl", accesslog.JSONL, twoAt(1709287200_250000, 1709287201_500000),
		[]string{getA + " host=api.example.com headers.user-agent=curl/8.5.0", postB + " user=bob size=7"},
	},
	{
		"envoy.jsonl", accesslog.JSONL, twoAt(1709287200_125000, 1709287201_125000),
		[]string{getA + " host=api.example.com size=0 headers.user-agent=curl/8.5.0", postB + " size=7"},
	},
	{
		"envoy.log", accesslog.Envoy, twoAt(1709287200_125000, 1709287201_250000),
		[]string{getA + " host=api.example.com headers.user-agent=curl/8.5.0", postB + ` status=429 headers.user-agent=an "agent"`},
	},
	{
		"istio.log", accesslog.Envoy, twoAt(1709287200_125000, 1709287201_250000),
		[]string{getA + " host=api.example.com headers.x-forwarded-for=192.0.2.1", postB + " status=503"},
	},
	{
		"ecs.jsonl", accesslog.JSONL, twoAt(1709287200_000000, 1709287201_000000),
		[]string{getA + " host=api.example.com headers.referer=http://www.example.com/", postB + " user=bob size=7 host=api.example.com"},
	},
	{
		"google_cloud.jsonl", accesslog.JSONL, twoAt(1709287200_250000, 1709287201_500000),
		[]string{getA + " host=api.example.com headers.user-agent=curl/8.5.0", postB},
	},
	{
		"haproxy.log", accesslog.HAProxy,
		[]string{"1233922454655000 192.0.2.1", "1233922455155000 192.0.2.2", "1233922456000000 192.0.2.3"},
		[]string{getA, postB, "  "},
	},
	{
		"alb.log", accesslog.ELB, []string{"1530570168364000 192.0.2.1", "1530570168364000 2001:db8::2"},
		[]string{getA + " host=www.example.com headers.user-agent=curl/7.46.0", postB + ` headers.user-agent=an "agent"`},
	},
	{
		"elb.log", accesslog.ELB, twoAt(1431560383_945958, 1431560384_945958),
		[]string{getA + " host=www.example.com headers.user-agent=curl/7.38.0", postB},
	},
	{
		"cloudfront.log", accesslog.W3C, []string{"1575493351000000 192.0.2.1", "1575493352000000 2001:db8::2"},
		[]string{
			getA + " host=api.example.com headers.user-agent=Mozilla/5.0 (Windows NT 10.0)",
			postB + " headers.referer=http://www.example.com/",
		},
	},
	{
		"iis.log", accesslog.W3C, twoAt(1709287200_000000, 1709287201_000000),
		[]string{getA + " host=api.example.com headers.user-agent=Mozilla/5.0 (Windows NT 10.0)", postB + ` user=CORP\bob`},
	},
	{
		"zeek.tsv", accesslog.Zeek, twoAt(1517336154_078555, 1517336155_078555),
		[]string{getA + " host=api.example.com size=0 headers.user-agent=curl/8.5.0", postB + " size=7"},
	},
	{
		"zeek.jsonl", accesslog.JSONL, twoAt(1517336154_078555, 1517336155_078555),
		[]string{getA + " host=api.example.com headers.user-agent=curl/8.5.0", postB},
	},
	{
		"comma.csv", accesslog.CSV, twoAt(1709287200_000000, 1709287201_000000), []string{getA + " headers.x-tenant=acme, inc", postB},
	},
	{
		"semicolon.csv", accesslog.CSV, twoAt(1709287200_000000, 1709287201_000000),
		[]string{getA + " headers.user-agent=curl; 8.5", postB},
	},
	{
		"bar.csv", accesslog.CSV, twoAt(1709287200_000000, 1709287201_000000), []string{getA + " headers.user-agent=curl; 8.5", postB},
	},
	{
		"tab.csv", accesslog.CSV, twoAt(1709287200_000000, 1709287201_000000), []string{getA + " headers.user-agent=curl; 8.5", postB},
	},
	{"containerd.log", accesslog.Combined, atTen, []string{getA, postB}},
	{"containerd_json.log", accesslog.JSONL, atTen, []string{getA, postB}},
	{"docker.jsonl", accesslog.Combined, atTen, []string{getA, postB}},
	{"forwarded_first.log", accesslog.Combined, atTen, []string{getA, postB + " user=bob"}},
	{"forwarded_then_peer.log", accesslog.Combined, atTen, []string{getA, postB + " user=bob headers.user-agent=curl/8.5.0"}},
	{"forwarded.jsonl", accesslog.JSONL, atTen, []string{getA, postB}},
	{"loki.jsonl", accesslog.Combined, atTen, []string{getA, postB}},
	{"splunk.jsonl", accesslog.Combined, atTen, []string{getA, postB}},
	{"splunk_fields.jsonl", accesslog.JSONL, atTen, []string{getA + " status=200", postB}},
	{"elasticsearch.jsonl", accesslog.JSONL, atTen, []string{getA + " status=200", postB}},
	{"elasticsearch_line.jsonl", accesslog.Combined, atTen, []string{getA, postB}},
	{"google_payload.jsonl", accesslog.JSONL, atTen, []string{getA + " status=200", postB}},
	{"syslog.log", accesslog.Combined, atTen, []string{getA, postB}},
	{"syslog5424.log", accesslog.Combined, atTen, []string{getA, postB}},
	{"rsyslog.log", accesslog.Combined, atTen, []string{getA, postB}},
	{"compose.log", accesslog.Combined, atTen, []string{getA, postB}},
	{"quoted.log", accesslog.Combined, atTen, []string{getA, postB + " headers.user-agent=curl/8.5.0"}},
}

var atTen = twoAt(1602324610_000000, 1602324611_000000)

func twoAt(first, second int64) []string {
	return []string{fmt.Sprintf("%d 192.0.2.1", first), fmt.Sprintf("%d 192.0.2.2", second)}
}

// Each sample is read by its content alone: the instant, the client, and the fields of the request.
func TestSamples(t *testing.T) {
	for _, s := range samples {
		t.Run(s.file, func(t *testing.T) {
			for _, requests := range []bool{false, true} {
				s.check(t, accesslog.Config{Requests: requests})
				s.check(t, accesslog.Config{Requests: requests, Format: s.format})
			}
		})
	}
}

func (s sample) check(t *testing.T, cfg accesslog.Config) {
	t.Helper()
	in, err := os.Open(filepath.Join("testdata", s.file))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()

	var events []string
	cfg.OnBadLine = func(bad accesslog.BadLine) { t.Errorf("%+v: line %d: %v: %s", cfg, bad.Line, bad.Err, bad.Text) }
	result, err := accesslog.Read(in, s.file, cfg, func(e accesslog.Event) error {
		key := string(e.Key)
		if cfg.Requests {
			key, _ = e.Field("ip")
			s.checkFields(t, len(events), e)
		}
		events = append(events, fmt.Sprintf("%d %s", e.At, key))
		return nil
	})
	if err != nil || result.Format != s.format || !slices.Equal(events, s.events) {
		t.Errorf("%+v: %v (%v), events %q, want %v, %q", cfg, result.Format, err, events, s.format, s.events)
	}
}

// checkFields compares method, path and query, and then every name=value.
func (s sample) checkFields(t *testing.T, i int, e accesslog.Event) {
	t.Helper()
	if i >= len(s.fields) {
		return
	}
	parts := strings.SplitN(s.fields[i], " ", 4)
	for j, name := range []string{"method", "path", "query"} {
		if got, _ := e.Field(name); got != parts[j] {
			t.Errorf("event %d: %s is %q, want %q", i, name, got, parts[j])
		}
	}
	if len(parts) < 4 {
		return
	}

	// A value may contain spaces, so it ends where the next name begins.
	wanted := ""
	for word := range strings.SplitSeq(parts[3], " ") {
		if strings.Contains(word, "=") && wanted != "" && !strings.HasPrefix(wanted, "headers.user-agent=") {
			checkField(t, e, wanted)
			wanted = ""
		}
		wanted = strings.TrimPrefix(wanted+" "+word, " ")
	}
	checkField(t, e, wanted)
}

func checkField(t *testing.T, e accesslog.Event, wanted string) {
	t.Helper()
	name, value, _ := strings.Cut(wanted, "=")
	if got, _ := e.Field(name); got != value {
		t.Errorf("%s is %q, want %q", name, got, value)
	}
	if header, ok := strings.CutPrefix(name, "headers."); ok && e.Under("headers")[header] != value {
		t.Errorf("the headers are %q, want %s", e.Under("headers"), wanted)
	}
}
