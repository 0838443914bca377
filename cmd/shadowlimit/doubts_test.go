package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
)

// accessLines are lines of a combined log, of clients that BY names.
func accessLines(n int, by func(i int) string) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%s - - [14/Nov/2023:22:%02d:%02d +0000] \"GET /orders/%d HTTP/1.1\" 200 5 \"-\" \"curl\"\n", by(i), i/60%60, i%60, i)
	}
	return b.Bytes()
}

func clientOf(i int) string { return fmt.Sprintf("192.0.2.%d", i%20) }

// What looks wrong is said on the standard error and in the report, and nothing is said of a sound log.
func TestReplayWarns(t *testing.T) {
	sound := write(t, "sound.log", accessLines(200, clientOf))
	again := write(t, "again.log", accessLines(200, clientOf))
	one := write(t, "one.log", accessLines(200, func(int) string { return "192.0.2.1" }))
	names := write(t, "names.log", accessLines(200, func(i int) string { return fmt.Sprintf("h%d", i%20) }))
	const httplog = `192.0.2.1:3 [06/Feb/2009:12:14:14.655] in b/s 1/0/3/6/9 200 2 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`
	haproxy := write(t, "haproxy.log", []byte(httplog))
	mixed := write(t, "mixed.log", append(accessLines(200, clientOf), bytes.Repeat([]byte("{\"ip\":\"192.0.2.1\"}\n"), 23)...))
	stray := write(t, "stray.log", append(accessLines(200, clientOf), bytes.Repeat([]byte("rotated\n"), 20)...))
	unnamed := write(t, "unnamed.csv", []byte("time,key\n1700000000,a\n1700000001,\n"))
	tenant := write(t, "t.yaml", []byte(plain("true", `request.headers[?"x-tenant"].orValue("none")`)))
	routed := write(t, "r.yaml", []byte(plain(`request.route == "/orders/{id}"`, "request.ip")))
	global := write(t, "g.yaml", []byte(plain("true", `"all"`)))

	sides := []string{"--from", "gcra:60/1m", "--to", "gcra:30/1m"}
	tests := []struct {
		name string
		args []string
		want []string // parts of warnings; none: no warning
	}{
		{"a sound log", append(sides, sound), nil},
		{"a log given twice", append(sides, sound, again), []string{"sound.log"}},
		{"one key", append(sides, one), []string{"replay: one key, 192.0.2.1, has 100 %"}},
		{"names", append(sides, names), []string{"20 keys of 20"}},
		{"two formats", append(sides, mixed), []string{"23 of 223 lines"}},
		{"a few stray lines", append(sides, stray), nil},
		{"an empty key", append(sides, unnamed), []string{"empty key"}},
		{"no zone", append(sides, haproxy), []string{"UTC"}},
		{"no zone, but a flag", append(sides, haproxy, "--time-zone", "Europe/Berlin"), nil},
		{
			"a header that no line has", []string{"--config", tenant, sound},
			[]string{`request.headers["x-tenant"]`, "first: one key, none, has 100 %"},
		},
		{"a header that is mapped", []string{"--config", tenant, sound, "--map", "request.headers.X-Tenant=ip"}, nil},
		{"a key of all requests", []string{"--config", global, sound}, nil},
		{"no routes", []string{"--config", routed, sound}, []string{"--route"}},
		{"routes", []string{"--config", routed, sound, "--route", "/orders/{id}"}, nil},
		{"other routes", []string{"--config", routed, sound, "--route", "/items/{id}"}, []string{"200 of 200 paths"}},
	}

	for _, tt := range tests {
		status, out, talk := shell(t, "", append([]string{"replay", "-o", "json"}, tt.args...)...)
		var report struct{ Warnings []string }
		decoded(t, out, &report)

		told := strings.Join(report.Warnings, "\n")
		if missing := firstMissing(told, tt.want); status != exitOK || missing != "" || len(report.Warnings) != len(tt.want) {
			t.Errorf("%s: status %d, warnings %q, want %q\n%s", tt.name, status, told, tt.want, talk)
		}
		if missing := firstMissing(talk, tt.want); missing != "" {
			t.Errorf("%s: %q lacks %q", tt.name, talk, missing)
		}
	}
}

// A flag that the log cannot obey is refused.
func TestReplayRefusesFlagsWithoutEffect(t *testing.T) {
	log := write(t, "a.log", accessLines(3, clientOf))
	lines := write(t, "a.jsonl", []byte(`{"t_s":1700000000,"ip":"192.0.2.1","key":"a"}`+"\n"))
	config := write(t, "p.yaml", []byte(plain("true", "request.ip")))
	sides := []string{"--from", "gcra:60/1m", "--to", "gcra:30/1m"}

	tests := []struct {
		args []string
		want string
	}{
		{append(sides, log, "--key-field", "ip"), "--key-field has no effect"},
		{append(sides, log, "--time-field", "nosuch"), "--time-field has no effect"},
		{append(sides, log, "--cost-field", "n"), "--cost-field has no effect"},
		{append(sides, log, "--time-zone", "UTC"), "--time-zone UTC has no effect"},
		{append(sides, log, "--time-zone", "Mars"), "--time-zone Mars"},
		{append(sides, lines, "--time-format", "%d.%m.%Y %H:%M"), "has no zone"},
		{append(sides, lines, "--map", "request.user=key"), "--map"},
		{append(sides, lines, "--route", "/x"), "--route"},
		{[]string{"--config", config, lines, "--key-field", "key"}, "--key-field"},
		{[]string{"--config", config, lines, "--map", "request.user=nosuch"}, "field nosuch"},
		{[]string{"--config", config, log, "--map", "request.user=nosuch"}, "its fields are ip, user"},
		{[]string{"--config", config, lines, "--map", "request.usr=key"}, "request has ip, method"},
		{[]string{"--config", config, lines, "--map", "user=key"}, "want request.FIELD=FIELD_OF_THE_LOG"},
	}

	for _, tt := range tests {
		status, out, talk := shell(t, "", append([]string{"replay"}, tt.args...)...)
		if status != exitUsage || out != "" || !strings.Contains(talk, tt.want) {
			t.Errorf("%q: status %d, %.80q, %q, want %q", tt.args, status, out, talk, tt.want)
		}
	}
}

// A broken log ends neither the run nor the others: the report is of the rest, and the status is 1.
func TestReplayGoesOnAfterABrokenLog(t *testing.T) {
	good := write(t, "good.log", accessLines(50, clientOf))
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(accessLines(3000, clientOf))
	w.Close()
	cut := write(t, "cut.log.gz", packed.Bytes()[:packed.Len()-9])

	for _, logs := range [][]string{{cut, good}, {good, cut}, {"/nowhere/x.log", good}} {
		args := append([]string{"replay", "-o", "json", "--from", "gcra:60/1m", "--to", "gcra:30/1m"}, logs...)
		status, out, talk := shell(t, "", args...)
		requests, _, _ := report(t, out)
		if status != exitFailure || requests < 50 || !strings.Contains(talk, "could be read: ") {
			t.Errorf("%q: status %d, %d requests, %q", logs, status, requests, talk)
		}
	}
}

// When no request is charged, the report says which part of the condition is false for how many.
func TestReplaySaysWhyNothingIsCharged(t *testing.T) {
	log := write(t, "a.log", accessLines(30, clientOf))
	config := write(t, "p.yaml", []byte(plain(`request.method == "GET" && request.path == "/x" && request.ip != "192.0.2.0"`, "request.ip")))
	_, _, talk := shell(t, "", "replay", "--config", config, log)
	want := `policy first: of 30: request.path == "/x" is false for 30; ` +
		`request.ip != "192.0.2.0" is false for 2`
	if !strings.Contains(talk, want) {
		t.Errorf("%q, want %q", talk, want)
	}
}
