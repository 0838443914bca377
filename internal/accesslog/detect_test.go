package accesslog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
)

func TestDetect(t *testing.T) {
	common := "a - - " + stamp + ` "GET /" 200 1`
	tests := []struct {
		name string
		give string
		want accesslog.Format
	}{
		{"common", common, accesslog.Common},
		{"common without size", "a - - " + stamp + ` "GET /" 200`, accesslog.Common},
		{"common with one quoted field more", common + ` "x"`, accesslog.Common},
		{"common with quotes in user and request", `a - "b "c ` + stamp + ` "GET / \" \"" 200 1`, accesslog.Common},
		{"combined", common + ` "-" "curl"`, accesslog.Combined},
		{"combined with an open agent", common + ` "-" "Mozilla`, accesslog.Combined},
		{"combined after junk", "x,y\n\x00\n\n" + common + ` "-" "curl"`, accesslog.Combined},
		{"jsonl", `{"a":1}`, accesslog.JSONL},
		{"jsonl after junk", "# a comment, with a comma\n [1]\n" + ` {"a":1}`, accesslog.JSONL},
		{"csv", "key,time\n1,2", accesslog.CSV},
		{"csv quoted", `"key","time"` + "\n1,2", accesslog.CSV},
		{"csv after blank lines", "\n \r\nkey,t_us\n", accesslog.CSV},
		{"csv of objects", "time,key\n" + `{"a":1}`, accesslog.CSV},
	}

	for _, tt := range tests {
		_, _, result, err := collect(strings.NewReader(tt.give), accesslog.Config{})
		if err != nil || result.Format != tt.want {
			t.Errorf("%s: %v (%v), want %v", tt.name, result.Format, err, tt.want)
		}
	}
}

func TestDetectGivesUp(t *testing.T) {
	good := "a - - " + stamp + ` "GET /" 200 1`
	tests := []string{
		"junk", "{", "[1]", `[` + "\n" + `{"time":1,"key":"a"},` + "\n" + `{"time":2,"key":"a"}` + "\n]",
		strings.Repeat("junk\n", 100) + good,
		strings.Repeat("x", 64<<10) + "\n" + good,
	}

	for _, give := range tests {
		_, _, result, err := collect(strings.NewReader(give), accesslog.Config{})
		if err == nil || !strings.HasPrefix(err.Error(), "log: cannot tell the format") || len(err.Error()) > 260 {
			t.Errorf("%.20q: %v, want a short error about the format", give, err)
		}
		if result.Events != 0 {
			t.Errorf("%.20q: %d events, want none", give, result.Events)
		}
	}
}

func TestFormatNames(t *testing.T) {
	for format := accesslog.Auto; format <= accesslog.Envoy; format++ {
		if got, err := accesslog.ParseFormat(format.String()); err != nil || got != format {
			t.Errorf("%v is read as %v (%v)", format, got, err)
		}
	}

	got, err := accesslog.ParseFormat("xml")
	if err == nil || !strings.Contains(err.Error(), "auto, common, combined, jsonl, csv, vhost, elb, haproxy, w3c, zeek, envoy") {
		t.Errorf("xml is read as %v (%v), want an error with all names", got, err)
	}
	if got := fmt.Sprint(accesslog.Format(-1), accesslog.Envoy+1); got != "Format(-1) Format(11)" {
		t.Errorf("formats that do not exist are %s", got)
	}
}
