package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
)

// collect reads a log and returns its events as "at key cost" and its bad lines
// as "line: reason".
func collect(in io.Reader, cfg accesslog.Config) (events, bad []string, result accesslog.Result, err error) {
	cfg.OnBadLine = func(b accesslog.BadLine) { bad = append(bad, fmt.Sprintf("%d: %v", b.Line, b.Err)) }
	result, err = accesslog.Read(in, "log", cfg, func(e accesslog.Event) error {
		events = append(events, fmt.Sprintf("%d %s %d", e.At, e.Key, e.Cost))
		return nil
	})
	return events, bad, result, err
}

const stamp = "[10/Oct/2000:13:55:36 -0700]" // 971211336

// good is a line of a common log, and goodEvent its event.
const (
	good      = "a - - " + stamp + ` "GET /" 200 1`
	goodEvent = "971211336000000 a 1"
)

// Lines of a common log, each of which is one event.
var commonLines = []struct{ name, give, want string }{
	{"common", "1.2.3.4 - - " + stamp + ` "GET / HTTP/1.0" 200 2326`, "971211336000000 1.2.3.4 1"},
	{
		"combined", "::1 - bob " + stamp + ` "GET /?q=\"x\" HTTP/1.0" 200 - "-" "curl" "more"` + "\r\n",
		"971211336000000 ::1 1",
	},
	{"agent without its closing quote", good + ` "-" "Mozilla`, goodEvent},
	{"user with spaces and brackets", "a - [bob] smith " + stamp + ` "GET /" 200 1`, goodEvent},
	{"request ends in a backslash", "a - - " + stamp + ` "GET /\\" 200 1`, goodEvent},
	{"blank lines", "\n\r\n" + good + "\n\n", goodEvent},
	{"byte order mark", "\ufeff" + good, goodEvent},
	{"user without a name", "a -  " + stamp + ` "GET /" 200 1`, goodEvent},
	{"user that looks like a time", "a - [10/Oct/2000:13:55:35 -0700] " + stamp + ` "GET /" 200 1`, goodEvent},
	{"request of any bytes", "a - - " + stamp + " \"\x16\x03\x00\xff\" 400 1", goodEvent},
	{"status ends the line", "a - - " + stamp + ` "-" 408`, goodEvent},
	{"leap day", `a - - [29/Feb/2016:23:59:59 +0330] "-" 408 -`, "1456777799000000 a 1"},
}

func TestReadCommonLines(t *testing.T) {
	for _, tt := range commonLines {
		t.Run(tt.name, func(t *testing.T) {
			readTest{give: []string{tt.give}, events: []string{tt.want}}.run(t)
		})
	}
}

// Lines that are no events. They follow a good line, so the first is line 2.
const (
	noTime  = "no [day/month/year:hour:minute:second zone] after host, ident and user"
	badTime = "the time in brackets is not a valid day/month/year:hour:minute:second zone"
)

var badCommonLines = []struct{ give, want string }{
	{"a", "no host before the first space"},
	{"junk", "no host before the first space"},
	{" - - " + stamp + ` "GET /" 200 1`, "no host before the first space"},
	{"a -", noTime},
	{"a - -", noTime},
	{"a " + stamp + ` "GET /" 200 1`, noTime},
	{"a -" + stamp + ` "GET /" 200 1`, noTime},
	{"a - - [10/Oct/20", "the line ends within its time"},
	{"a - - " + stamp[:27], "the line ends within its time"},
	{`a - - [30/Feb/2016:00:00:00 +0000] "GET /" 200 1`, badTime},
	{`a - - [10/Oct/2000:24:00:00 +0000] "GET /" 200 1`, badTime},
	{`a - - [10/Oct/2000 13:55:36] "GET /" 200 1`, badTime},
	{`a - - [10/Oct/9999:13:55:36 -0700] "GET /" 200 1`, "outside the years 1899 to 2112"},
	{"a - - " + stamp, `no closed "request" after the time`},
	{"a - - " + stamp + ` "GET /pres`, `no closed "request" after the time`},
	{"a - - " + stamp + " GET / [x] 200 1", `no closed "request" after the time`},
	{"a - - " + stamp + ` "GET /" 20`, "no three-digit status after the request"},
	{"a - - " + stamp + ` "GET /" OK`, "no three-digit status after the request"},
	{"a - - " + stamp + ` "GET /" 2000 1`, "no three-digit status after the request"},
}

func TestReadBadCommonLines(t *testing.T) {
	tt := readTest{give: []string{good}, events: []string{goodEvent}}
	for i, line := range badCommonLines {
		tt.give = append(tt.give, line.give)
		tt.bad = append(tt.bad, fmt.Sprintf("%d: %s", i+2, line.want))
	}

	tt.run(t)
}

// readTest is a log and the events and bad lines that it holds.
type readTest struct {
	name   string
	give   []string // lines
	fields accesslog.Fields
	events []string // as "at key cost"
	bad    []string // as "line: reason"
}

var readTests = []readTest{
	{
		name: "csv",
		give: []string{
			"t_ns,key,cost", "1700158546680590999,all,418", `1700158546680591000,"a,b",`,
			"1,x", "2,x,-1", "3,x,1.5", "", "x,x,1", `4,"x,1`,
		},
		events: []string{"1700158546680590 all 418", "1700158546680591 a,b 1"},
		bad: []string{
			"4: fewer columns than the header", "5: cost -1 is negative", "6: cost 1.5 is not a whole number",
			"8: time x: neither RFC 3339 nor a number: name its form by --time-format", "9: the quotes do not close",
		},
	},
	{
		name: "addresses of IPv6 with a port, and no brackets",
		give: []string{
			`2001:db8::5:50443 [06/Feb/2009:12:14:14.655] in b/s 1/0/3/6/9 200 2 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`,
			`2001:db8:1:2:3:4:5:6:50443 [06/Feb/2009:12:14:14.655] in b/s 1/0/3/6/9 200 2 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`,
		},
		events: []string{"1233922454655000 2001:db8::5 1", "1233922454655000 2001:db8:1:2:3:4:5:6 1"},
	},
	{
		name:   "an address with a port in a common log",
		give:   []string{"192.0.2.1:4711 - - " + stamp + ` "GET /" 200 1`, "::ffff:192.0.2.1 - - " + stamp + ` "GET /" 200 1`},
		events: []string{strings.Replace(goodEvent, " a ", " 192.0.2.1 ", 1), strings.Replace(goodEvent, " a ", " 192.0.2.1 ", 1)},
	},
	{
		name: "addresses of Caddy before 2.5, and of AWS WAF",
		give: []string{
			`{"ts":"2023-11-16T18:15:46Z","request":{"remote_addr":"192.0.2.1:33318","method":"GET"}}`,
			`{"timestamp":1700158546000,"httpRequest":{"clientIp":"192.0.2.1","httpMethod":"GET"}}`,
		},
		events: []string{"1700158546000000 192.0.2.1 1", "1700158546000000 192.0.2.1 1"},
	},
	{
		name:   "csv prefers time",
		give:   []string{"t_s,time,key", "1,2023-11-16T18:15:46.680590Z,a"},
		events: []string{"1700158546680590 a 1"},
	},
	{
		name:   "csv named fields",
		give:   []string{"tenant,when_ms,n", "x,1700158546680,3"},
		fields: accesslog.Fields{Time: "when_ms", Key: "tenant", Cost: "n"},
		events: []string{"1700158546680000 x 3"},
	},
	{
		name: "csv costs and quotes",
		give: []string{
			"time,key,cost", "1,a,99999999999999999999", "1,a,-99999999999999999999", `1,a"b,1`, `1,"a""b",1`, `1,"a"`,
			"1,a,9223372036854775807",
		},
		events: []string{`1000000 a"b 1`, "1000000 a 9223372036854775807"},
		bad: []string{
			"2: cost 99999999999999999999 is larger than 9223372036854775807",
			"3: cost -99999999999999999999 is negative",
			"4: a quote in a cell that is not quoted",
			"6: fewer columns than the header",
		},
	},
	{
		name: "csv header alone",
		give: []string{"time,key", ""},
	},
	{
		name: "jsonl",
		give: []string{
			`{"time":"2023-11-16T18:15:46.680590+01:00","key":"a"}`, `{"t_us":5,"key":7,"cost":null}`,
			`{"time":1.5e9,"key":"é","cost":0}`,
			`{"time":1,"key":null}`, "[1]", "null", `{"key":"a"}`, `{"time":1,"key":"a","cost":{}}`,
		},
		events: []string{"1700154946680590 a 1", "5 7 1", "1500000000000000 é 0"},
		bad: []string{
			`4: no field "key", and none that is known to have the client's address; the line has key, time`,
			"5: not a JSON object", "6: not a JSON object",
			`7: no field "time" that is a time; the line has key`, `8: field "cost" is not a cost`,
		},
	},
	{
		name: "jsonl names with dots",
		give: []string{
			`{"ts":1517336154.078555,"id.orig_h":"10.0.0.1","id":{"orig_h":"wrong"}}`,
			`{"ts":1,"id":{"orig_h":"10.0.0.2"}}`,
		},
		fields: accesslog.Fields{Time: "ts", Key: "id.orig_h"},
		events: []string{"1517336154078555 10.0.0.1 1", "1000000 10.0.0.2 1"},
	},
	{
		name: "jsonl times that are null, an object, without a zone",
		give: []string{
			`{"time":null,"t_s":1,"key":true}`, `{"time":{},"t_s":1,"key":"a"}`, `{"time":"2023-11-16 18:15:46","key":"a"}`,
		},
		events: []string{"1000000 true 1"},
		bad: []string{
			`2: field "time" is not a time`,
			"3: time 2023-11-16 18:15:46: no zone: name it with --time-zone, such as --time-zone UTC",
		},
	},
	{
		name:   "junk before the first good line",
		give:   []string{"!!", "###", good},
		events: []string{goodEvent},
		bad:    []string{"1: no host before the first space", "2: no host before the first space"},
	},
}

func TestRead(t *testing.T) {
	for _, tt := range readTests {
		t.Run(tt.name, tt.run)
	}
}

// run reads the log plain and as gzip.
func (tt readTest) run(t *testing.T) {
	log := strings.Join(tt.give, "\n")

	for name, in := range map[string]io.Reader{"plain": strings.NewReader(log), "gzip": zipped(log)} {
		events, bad, result, err := collect(in, accesslog.Config{Fields: tt.fields})
		if err != nil {
			t.Fatal(err)
		}

		if !slices.Equal(events, tt.events) {
			t.Errorf("%s: events %q, want %q", name, events, tt.events)
		}
		if got, want := strings.Join(bad, "\n"), strings.Join(tt.bad, "\n"); got != want {
			t.Errorf("%s: bad lines\n%s\nwant\n%s", name, got, want)
		}
		if int(result.Events) != len(events) || int(result.Bad) != len(bad) {
			t.Errorf("%s: result %+v for %d events and %d bad lines", name, result, len(events), len(bad))
		}
	}
}

func zipped(s string) io.Reader {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	w.Close()
	return &b
}

func TestReadFails(t *testing.T) {
	cut := func(s string, at int) io.Reader {
		b, _ := io.ReadAll(zipped(s))
		return bytes.NewReader(b[:at])
	}

	csv := accesslog.Config{Format: accesslog.CSV}
	named := accesslog.Config{Fields: accesslog.Fields{Cost: "n"}}

	tests := []struct {
		name string
		give io.Reader
		cfg  accesslog.Config
		want string
	}{
		{
			"binary junk", strings.NewReader("\x7fELF\x02\x01\x01\x00\x00\n\xff\xfe"), accesslog.Config{},
			"log: cannot tell the format (not common, combined, jsonl, csv, vhost, elb, haproxy, w3c, zeek or envoy); say --format, or convert it " +
				"to CSV with a header; it begins with `\\x7fELF\\x02",
		},
		{
			"zip", strings.NewReader("PK\x03\x04 and more"), accesslog.Config{},
			"log: a zip archive: unzip -p FILE | shadowlimit replay -",
		},
		{"UTF-16", strings.NewReader("\xff\xfea\x00"), accesslog.Config{}, "log: text in UTF-16: iconv"},
		{
			"an error log", strings.NewReader("2024/03/01 10:00:00 [error] 12#12: *1 open() failed"), accesslog.Config{},
			"log: cannot tell the format: it looks like an error log of nginx, which has no requests",
		},
		{"a JSON array", strings.NewReader(`[{"a":1},`), accesslog.Config{}, "it looks like a JSON array: jq -c '.[]' FILE"},
		{
			"JSON over several lines", strings.NewReader("{\n  \"a\": 1\n}\n"), accesslog.Config{},
			"it looks like JSON over several lines: jq -c .",
		},
		{"bzip2 of junk", strings.NewReader("BZh91AY&SYjunkjunkjunk"), accesslog.Config{}, "log: the bzip2 stream"},
		{"truncated gzip", cut(good, 30), accesslog.Config{}, "log: the gzip stream ends early, after"},
		{"gzip header alone", cut(good, 5), accesslog.Config{}, "log: the gzip stream ends early, after 0 lines"},
		{
			"csv without time", strings.NewReader("a,key\n1,2\n"), accesslog.Config{},
			`log: the CSV header has no field "time"; it has a, key: name one with --time-field`,
		},
		{
			"csv without key", strings.NewReader("time,b\n1,2\n"), accesslog.Config{},
			`log: the CSV header has no field "key"; it has time, b: name one with --key-field`,
		},
		{
			"csv without the named cost", strings.NewReader("time,key\n1,2\n"), named,
			`no field "n"; it has time, key: name one with --cost-field`,
		},
		{
			"csv header with an open quote", strings.NewReader("time,\"key\n"), csv,
			"log: the CSV header: the quotes do not close",
		},
		{
			"csv header too long", strings.NewReader("time,key," + strings.Repeat("x", 1<<20)), csv,
			"log: the CSV header: the line is longer than 1024 KiB",
		},
	}

	for _, tt := range tests {
		if _, _, _, err := collect(tt.give, tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestEmptyIsNoError(t *testing.T) {
	for format := accesslog.Auto; format <= accesslog.Envoy; format++ {
		cfg := accesslog.Config{Format: format}

		events, bad, result, err := collect(strings.NewReader(""), cfg)
		if want := (accesslog.Result{Format: format}); err != nil || result != want || events != nil || bad != nil {
			t.Errorf("%v: %v %v %+v %v, want nothing", format, events, bad, result, err)
		}

		_, bad, result, err = collect(strings.NewReader("\n \t\r\n"), cfg)
		if want := (accesslog.Result{Format: format, Lines: 2}); err != nil || result != want || bad != nil {
			t.Errorf("%v: %v %+v %v, want two blank lines", format, bad, result, err)
		}
	}
}

func TestErrorOfEmitEndsReading(t *testing.T) {
	stop := errors.New("enough")
	emit := func(accesslog.Event) error { return stop }

	_, err := accesslog.Read(zipped(strings.Repeat(good+"\n", 10)), "log", accesslog.Config{}, emit)
	if !errors.Is(err, stop) {
		t.Errorf("error %v, want the error of emit", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range samples {
		log, err := os.ReadFile("testdata/" + s.file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(log, 0)
		f.Add(log, 10)
	}
	f.Add([]byte(good), 0)
	f.Add([]byte("time,key,cost\n1,a,2\n\"x"), 4)
	f.Add([]byte(`{"time":1e5,"key":"a"}`), 3)
	f.Add([]byte{0x1f, 0x8b, 8, 0}, 0)

	f.Fuzz(func(t *testing.T, log []byte, format int) {
		cfg := accesslog.Config{Format: accesslog.Format((format%10 + 10) % 10), Requests: format%20 >= 10}
		result, _ := accesslog.Read(bytes.NewReader(log), "log", cfg, func(e accesslog.Event) error {
			e.Field("path")
			if e.Cost < 0 || e.At < -1<<51 || e.At > 1<<52 {
				t.Errorf("event %+v is out of range", e)
			}
			return nil
		})

		if result.Events+result.Bad > result.Lines {
			t.Errorf("%+v: more events and bad lines than lines", result)
		}
	})
}

// BenchmarkRead reads a combined log, plain and gzip.
func BenchmarkRead(b *testing.B) {
	const lines = 20_000
	const form = `10.0.%d.%d - - [17/May/2015:10:%02d:%02d +0000] ` +
		`"GET /presentations/logstash/images/dashboard%d.png HTTP/1.1" 200 203023 ` +
		`"http://example.com/presentations/logstash/" ` +
		`"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0.1700.77"` + "\n"

	var log strings.Builder
	for i := range lines {
		fmt.Fprintf(&log, form, i/256%256, i%256, i/60%60, i%60, i)
	}
	ignore := func(accesslog.Event) error { return nil }

	packed, _ := io.ReadAll(zipped(log.String()))
	for name, in := range map[string][]byte{"plain": []byte(log.String()), "gzip": packed} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := accesslog.Read(bytes.NewReader(in), "log", accesslog.Config{}, ignore); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(lines*b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
