package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
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

func TestRead(t *testing.T) {
	tests := []struct {
		name   string
		give   string
		cfg    accesslog.Config
		events []string
		bad    []string
	}{
		{"common", "1.2.3.4 - - " + stamp + ` "GET / HTTP/1.0" 200 2326`, accesslog.Config{}, []string{"971211336000000 1.2.3.4 1"}, nil},
		{"combined", "::1 - bob " + stamp + ` "GET /?q=\"x\" HTTP/1.0" 200 - "-" "curl" "more"` + "\r\n", accesslog.Config{}, []string{"971211336000000 ::1 1"}, nil},
		{"agent without its closing quote", "a - - " + stamp + ` "GET /" 200 1 "-" "Mozilla`, accesslog.Config{}, []string{"971211336000000 a 1"}, nil},
		{"user with spaces and brackets", "a - [bob] smith " + stamp + ` "GET /" 200 1`, accesslog.Config{}, []string{"971211336000000 a 1"}, nil},
		{"request ends in a backslash", "a - - " + stamp + ` "GET /\\" 200 1`, accesslog.Config{}, []string{"971211336000000 a 1"}, nil},
		{"blank lines", "\n\r\na - - " + stamp + ` "GET /" 200 1` + "\n\n", accesslog.Config{}, []string{"971211336000000 a 1"}, nil},
		{"byte order mark", "\ufeffa - - " + stamp + ` "GET /" 200 1`, accesslog.Config{}, []string{"971211336000000 a 1"}, nil},
		{"user without a name", "a -  " + stamp + ` "GET /" 200 1`, accesslog.Config{}, []string{"971211336000000 a 1"}, nil},
		{"user that looks like a time", "a - [10/Oct/2000:13:55:35 -0700] " + stamp + ` "GET /" 200 1`, accesslog.Config{}, []string{"971211336000000 a 1"}, nil},
		{"request of any bytes", "a - - " + stamp + " \"\x16\x03\x00\xff\" 400 1", accesslog.Config{}, []string{"971211336000000 a 1"}, nil},
		{"status ends the line", "a - - " + stamp + ` "-" 408`, accesslog.Config{}, []string{"971211336000000 a 1"}, nil},
		{
			"common lines cut off", strings.Join([]string{
				"a - - " + stamp + ` "GET /" 200 1`, "a", "a -", "a - -", "a - - [10/Oct/20", "a - - " + stamp[:27], "a - - " + stamp + ` "GET /" 20`,
				"a " + stamp + ` "GET /" 200 1`, "a -" + stamp + ` "GET /" 200 1`, `a - - [10/Oct/9999:13:55:36 -0700] "GET /" 200 1`,
				"a - - " + stamp + " GET / [x] 200 1",
			}, "\n"),
			accesslog.Config{}, []string{"971211336000000 a 1"},
			[]string{
				"2: no host before the first space", "3: no [day/month/year:hour:minute:second zone] after host, ident and user",
				"4: no [day/month/year:hour:minute:second zone] after host, ident and user", "5: the line ends within its time",
				"6: the line ends within its time", "7: no three-digit status after the request",
				"8: no [day/month/year:hour:minute:second zone] after host, ident and user", "9: no [day/month/year:hour:minute:second zone] after host, ident and user",
				"10: outside the years 1899 to 2112", `11: no closed "request" after the time`,
			},
		},
		{"leap day", `a - - [29/Feb/2016:23:59:59 +0330] "-" 408 -`, accesslog.Config{}, []string{"1456777799000000 a 1"}, nil},
		{
			"bad common lines", strings.Join([]string{
				"a - - " + stamp + ` "GET /" 200 1`, "junk", " - - " + stamp + ` "GET /" 200 1`, "a - - " + stamp + ` "GET /pres`,
				"a - - " + stamp + ` "GET /" OK`, "a - - " + stamp, `a - - [30/Feb/2016:00:00:00 +0000] "GET /" 200 1`,
				`a - - [10/Oct/2000:24:00:00 +0000] "GET /" 200 1`, `a - - [10/Oct/2000 13:55:36] "GET /" 200 1`, "a - - " + stamp + ` "GET /" 2000 1`,
			}, "\n"),
			accesslog.Config{}, []string{"971211336000000 a 1"},
			[]string{
				"2: no host before the first space", "3: no host before the first space", `4: no closed "request" after the time`,
				"5: no three-digit status after the request", `6: no closed "request" after the time`, "7: the time in brackets is no day/month/year:hour:minute:second zone that exists",
				"8: the time in brackets is no day/month/year:hour:minute:second zone that exists",
				"9: the time in brackets is no day/month/year:hour:minute:second zone that exists", "10: no three-digit status after the request",
			},
		},
		{
			"csv", "t_ns,key,cost\n1700158546680590999,all,418\n1700158546680591000,\"a,b\",\n1,x\n2,x,-1\n3,x,1.5\n\nx,x,1\n4,\"x,1\n",
			accesslog.Config{}, []string{"1700158546680590 all 418", "1700158546680591 a,b 1"},
			[]string{"4: fewer columns than the header", "5: cost -1 is negative", "6: cost 1.5 is not a whole number", "8: time x: is neither RFC 3339 nor a number", "9: the quotes do not close"},
		},
		{"csv prefers time", "t_s,time,key\n1,2023-11-16T18:15:46.680590Z,a\n", accesslog.Config{}, []string{"1700158546680590 a 1"}, nil},
		{"csv named fields", "who,when_ms,n\nx,1700158546680,3\n", accesslog.Config{Fields: accesslog.Fields{Time: "when_ms", Key: "who", Cost: "n"}}, []string{"1700158546680000 x 3"}, nil},
		{
			"csv costs and quotes", "time,key,cost\n1,a,99999999999999999999\n1,a,-99999999999999999999\n1,a\"b,1\n1,\"a\"\"b\",1\n1,\"a\"\n1,a,9223372036854775807\n",
			accesslog.Config{}, []string{`1000000 a"b 1`, "1000000 a 9223372036854775807"},
			[]string{"2: cost 99999999999999999999 is over 9223372036854775807", "3: cost -99999999999999999999 is negative", "4: a quote in a cell that is not quoted", "6: fewer columns than the header"},
		},
		{"csv header alone", "time,key\n", accesslog.Config{}, nil, nil},
		{
			"jsonl", `{"time":"2023-11-16T18:15:46.680590+01:00","key":"a"}` + "\n" + `{"t_us":5,"key":7,"cost":null}` + "\n" + `{"time":1.5e9,"key":"é","cost":0}` + "\n" + `{"time":1,"key":null}` + "\n[1]\nnull\n" + `{"key":"a"}` + "\n" + `{"time":1,"key":"a","cost":{}}`,
			accesslog.Config{}, []string{"1700154946680590 a 1", "5 7 1", "1500000000000000 é 0"},
			[]string{`4: no field "key" that is a string or a number`, "5: not a JSON object", "6: not a JSON object", `7: no field "time" that is a time`, `8: field "cost" is no cost`},
		},
		{
			"jsonl names with dots", `{"ts":1517336154.078555,"id.orig_h":"10.0.0.1","id":{"orig_h":"wrong"}}` + "\n" + `{"ts":1,"id":{"orig_h":"10.0.0.2"}}`,
			accesslog.Config{Fields: accesslog.Fields{Time: "ts", Key: "id.orig_h"}}, []string{"1517336154078555 10.0.0.1 1", "1000000 10.0.0.2 1"}, nil,
		},
		{
			"jsonl time that is there and none", `{"time":null,"t_s":1,"key":true}` + "\n" + `{"time":{},"t_s":1,"key":"a"}` + "\n" + `{"time":"2023-11-16 18:15:46","key":"a"}`,
			accesslog.Config{}, []string{"1000000 true 1"},
			[]string{`2: field "time" is no time`, "3: time 2023-11-16 18:15:46: has no zone: want RFC 3339, such as 2006-01-02T15:04:05Z, or a number"},
		},
		{"junk before the first good line", "!!\n###\na - - " + stamp + ` "GET /" 200 1`, accesslog.Config{}, []string{"971211336000000 a 1"}, []string{"1: no host before the first space", "2: no host before the first space"}},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, wrap := range []func(string) io.Reader{func(s string) io.Reader { return strings.NewReader(s) }, zipped} {
				events, bad, result, err := collect(wrap(tt.give), tt.cfg)
				if err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(events) != fmt.Sprint(tt.events) {
					t.Errorf("events %q, want %q", events, tt.events)
				}
				if strings.Join(bad, "\n") != strings.Join(tt.bad, "\n") {
					t.Errorf("bad lines\n%s\nwant\n%s", strings.Join(bad, "\n"), strings.Join(tt.bad, "\n"))
				}
				if int(result.Events) != len(events) || int(result.Bad) != len(bad) {
					t.Errorf("result %+v for %d events and %d bad lines", result, len(events), len(bad))
				}
			}
		})
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

	line := "a - - " + stamp + ` "GET /" 200 1` + "\n"
	tests := []struct {
		name string
		give io.Reader
		cfg  accesslog.Config
		want string
	}{
		{"binary junk", bytes.NewReader([]byte("\x7fELF\x02\x01\x01\x00\x00\n\xff\xfe")), accesslog.Config{}, `log: cannot tell the format (not common, combined, jsonl or csv); say --format; it begins with ` + "`\\x7fELF\\x02"},
		{"truncated gzip", cut(line, 30), accesslog.Config{}, "log: the gzip stream ends early, after"},
		{"gzip header alone", cut(line, 5), accesslog.Config{}, "log: the gzip stream ends early, after 0 lines"},
		{"csv without time", strings.NewReader("a,key\n1,2\n"), accesslog.Config{}, `log: the CSV header has no field "time"; it has a, key: name one with --time-field`},
		{"csv without key", strings.NewReader("time,b\n1,2\n"), accesslog.Config{}, `log: the CSV header has no field "key"; it has time, b: name one with --key-field`},
		{"csv without the named cost", strings.NewReader("time,key\n1,2\n"), accesslog.Config{Fields: accesslog.Fields{Cost: "n"}}, `no field "n"; it has time, key: name one with --cost-field`},
		{"csv header with an open quote", strings.NewReader("time,\"key\n"), accesslog.Config{Format: accesslog.CSV}, "log: the CSV header: the quotes do not close"},
		{"csv header too long", strings.NewReader("time,key," + strings.Repeat("x", 1<<20)), accesslog.Config{Format: accesslog.CSV}, "log: the CSV header: the line is longer than 1024 KiB"},
	}

	for _, tt := range tests {
		if _, _, _, err := collect(tt.give, tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestEmptyIsNoError(t *testing.T) {
	for format := accesslog.Auto; format <= accesslog.CSV; format++ {
		want := accesslog.Result{Format: format}
		if events, bad, result, err := collect(strings.NewReader(""), accesslog.Config{Format: format}); err != nil || result != want || events != nil || bad != nil {
			t.Errorf("%v: %v %v %+v %v, want nothing", format, events, bad, result, err)
		}
		want.Lines = 2
		if _, bad, result, err := collect(strings.NewReader("\n \t\r\n"), accesslog.Config{Format: format}); err != nil || result != want || bad != nil {
			t.Errorf("%v: %v %+v %v, want two blank lines", format, bad, result, err)
		}
	}
}

func TestErrorOfEmitEndsReading(t *testing.T) {
	stop := errors.New("enough")
	_, err := accesslog.Read(zipped(strings.Repeat("a - - "+stamp+` "GET /" 200 1`+"\n", 10)), "log", accesslog.Config{}, func(accesslog.Event) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("error %v, want the one of emit", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("a - - "+stamp+` "GET /" 200 1`), 0)
	f.Add([]byte("time,key,cost\n1,a,2\n\"x"), 4)
	f.Add([]byte(`{"time":1e5,"key":"a"}`), 3)
	f.Add([]byte{0x1f, 0x8b, 8, 0}, 0)

	f.Fuzz(func(t *testing.T, log []byte, format int) {
		cfg := accesslog.Config{Format: accesslog.Format((format%5 + 5) % 5)}
		result, _ := accesslog.Read(bytes.NewReader(log), "log", cfg, func(e accesslog.Event) error {
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
	var log strings.Builder

	const lines = 20_000
	for i := range lines {
		fmt.Fprintf(&log, `10.0.%d.%d - - [17/May/2015:10:%02d:%02d +0000] "GET /presentations/logstash/images/dashboard%d.png HTTP/1.1" 200 203023 "http://example.com/presentations/logstash/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0.1700.77 Safari/537.36"`+"\n", i/256%256, i%256, i/60%60, i%60, i)
	}

	packed, _ := io.ReadAll(zipped(log.String()))
	for name, in := range map[string][]byte{"plain": []byte(log.String()), "gzip": packed} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := accesslog.Read(bytes.NewReader(in), "log", accesslog.Config{}, func(accesslog.Event) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(lines*b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
