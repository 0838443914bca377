package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

func TestExplain(t *testing.T) {
	const read = `{"method":"GET","user":"a|b","route":"/r"}`
	const bulk = `{"method":"POST","path":"/bulk/1","user":"vip"}`
	text := []string{
		"writes ", " 3 ", " vip; ", " local\n", "authoritative  fixed_window  4 per 1m\n", "candidate      token_bucket  8 per 1m, burst 2\n",
		"canary         by hash, at 77.16 %; ", "\nreads ", ": request.method == \"GET\"\n",
	}

	tests := []struct {
		content string
		invocation
	}{
		{shopFile, invocation{"text", []string{"explain", "--request", bulk, "FILE"}, 0, text, nil}},
		{shopFile, invocation{
			"flags after the file", []string{"explain", "FILE", "--request", bulk, "-o", "text"}, 0, text, nil,
		}},
		{shopFile, invocation{"no candidate", []string{"explain", "FILE", "--request", read}, 0, []string{
			"writes ", ": request.method == \"POST\"\n",
		}, nil}},
		{doubtfulFile, invocation{
			"an expression that fails", []string{"explain", "FILE", "--request", "{}"}, 0,
			[]string{
				"p ", " 1 ", " \"\"; ", "\nq ", `: request.headers["x-tenant"]: no such key: x-tenant`,
			},
			nil,
		}},
		{shopFile, invocation{
			"broken JSON", []string{"explain", "FILE", "--request", `{"method":`}, 2, nil,
			[]string{"shadowlimit: --request: the JSON ends early", "explain --help"},
		}},
		{shopFile, invocation{
			"no object", []string{"explain", "FILE", "--request", `["POST"]`, "-o", "json"}, 2, nil,
			[]string{"--request: "},
		}},
		{shopFile, invocation{
			"two objects", []string{"explain", "FILE", "--request", `{}{}`}, 2, nil, []string{"more than one object"},
		}},
		{shopFile, invocation{
			"a typing error", []string{"explain", "FILE", "--request", `{"methd":"POST"}`}, 2, nil,
			[]string{`unknown field "methd"`},
		}},
		{shopFile, invocation{"no request", []string{"explain", "FILE"}, 2, nil, []string{"explain needs --request"}}},
		{shopFile, invocation{
			"a request as an argument", []string{"explain", "FILE", `{"user":"a"}`}, 2, nil, []string{`write: --request '{"user":"a"}'`},
		}},
		{shopFile, invocation{
			"a file as curl takes one", []string{"explain", "FILE", "--request", "@r.json"}, 2, nil, []string{`--request "$(cat request.json)"`},
		}},
		{shopFile, invocation{
			"a request that is missing", []string{"explain", "FILE", "--request"}, 2, nil,
			[]string{"needs an argument: -request"},
		}},
		{shopFile, invocation{
			"no file", []string{"explain", "--request", "{}"}, 2, nil, []string{"one policy file, got 0"},
		}},
		{shopFile, invocation{
			"a bad output", []string{"explain", "FILE", "--request", "{}", "-o", "xml"}, 2, nil,
			[]string{"-o xml: want text or json"},
		}},
		{shopFile, invocation{
			"no such file", []string{"explain", "FILE.not", "--request", "{}"}, 1, nil,
			[]string{"FILE.not: no such file"},
		}},
		{brokenFile, invocation{
			"a broken file", []string{"explain", "FILE", "--request", "{}"}, 1, nil, brokenText,
		}},
	}

	for _, tt := range tests {
		tt.check(t, write(t, "p.yaml", []byte(tt.content)))
	}
}

func TestExplainJSON(t *testing.T) {
	file := write(t, "p.yaml", []byte(shopFile))
	tests := []struct{ name, request, check, authoritative, candidate, skipped string }{
		{
			"both sides", `{"method":"POST","path":"/bulk/1","user":"vip"}`, "writes vip 3",
			"fixed_window 4 1m 0", "token_bucket 8 1m 2", `reads: when is false: request.method == "GET"`,
		},
		{
			"one side", `{"method":"GET","user":"a|b","route":"/r","headers":{"x":["1","2"]},"query":{"q":"1"},` +
				`"size":7,"time":"2026-01-01T00:00:00Z"}`,
			`reads a\|b|/r 1`, "leaky_bucket 60 1m 3", "", `writes: when is false: request.method == "POST"`,
		},
	}

	for _, tt := range tests {
		status, out, talk := shell(t, "", "explain", file, "--request", tt.request, "-o", "json")
		var report map[string][]map[string]any
		decoded(t, out, &report)
		if status != 0 || talk != "" || len(report) != 2 || len(report["charges"]) != 1 || len(report["skipped"]) != 1 {
			t.Fatalf("%s: status %d, %q, %s", tt.name, status, talk, out)
		}

		check, skipped := report["charges"][0], report["skipped"][0]
		got := fmt.Sprint(check["policy"], " ", check["key"], " ", check["cost"])
		const fields = "authoritative canary candidate cost key on_store_failure policy protected"
		if got != tt.check || fieldsOf(check) != fields {
			t.Errorf("%s: check %s with the fields %s, want %s with %s: a field that was added stands in fields here, too",
				tt.name, got, fieldsOf(check), tt.check, fields)
		}

		for role, want := range map[string]string{"authoritative": tt.authoritative, "candidate": tt.candidate} {
			if got := explainedSide(check[role]); got != want {
				t.Errorf("%s: %s %q, want %q", tt.name, role, got, want)
			}
		}

		if got := fmt.Sprintf("%v: %v", skipped["policy"], skipped["reason"]); got != tt.skipped {
			t.Errorf("%s: skipped %s, want %s", tt.name, got, tt.skipped)
		}
	}
}

func explainedSide(v any) string {
	side, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	return fmt.Sprint(side["algorithm"], " ", side["limit"], " ", side["window"], " ", side["burst"])
}

// Nothing to charge is two lists, not null.
func TestExplainJSONOfNothing(t *testing.T) {
	file := write(t, "p.yaml", []byte(shopFile))
	_, out, _ := shell(t, "", "explain", "-o", "json", file, "--request", "{}")
	if !strings.Contains(out, `"charges": []`) || strings.Count(out, `"reason"`) != 2 {
		t.Errorf("explanation %s", out)
	}
}

// filled gives every field of a struct a value of its own. Pointers and structs stay as they are.
func filled(t *testing.T, of any) {
	t.Helper()
	v := reflect.ValueOf(of).Elem()

	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(fmt.Sprintf("text%d", i))
		case reflect.Int64:
			f.SetInt(int64(700 + i))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{"team": fmt.Sprintf("text%d", i)}))
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{fmt.Sprintf("text%d", i)}))
		case reflect.Pointer, reflect.Struct:
		default:
			t.Fatalf("no value for a field of kind %s: add one here", f.Kind())
		}
	}
}

// hostile gives every string of a struct control characters.
func hostile(of any) {
	for _, f := range reflect.ValueOf(of).Elem().Fields() {
		if f.Kind() == reflect.String {
			f.SetString("a\x1b[2J\nb")
		}
	}
}

// What a file or a request holds steers no terminal, and makes no line of its own.
func TestExplainSteersNoTerminal(t *testing.T) {
	check, candidate, skipped := policies.ExplainedCheck{}, policies.ExplainedSide{}, policies.Skipped{}
	check.Authoritative.Limit = 1 // without an error its window is printed
	for _, of := range []any{&check, &check.Authoritative, &candidate, &skipped} {
		hostile(of)
	}
	check.Authoritative.Error, check.Candidate = "", &candidate

	var text strings.Builder
	e := explanation{Checks: []explainedCheck{{ExplainedCheck: check}}, Skipped: []policies.Skipped{skipped}}
	if err := writeExplanation(&text, &e); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(text.String(), "\n"); lines != 4 || strings.Contains(text.String(), "\x1b") {
		t.Errorf("%q: pass free text through humanize.Printable, and sentences through humanize.Visible", text.String())
	}
}

// A field that is added to an explanation is for people, too, and not only in its JSON.
func TestExplainPrintsEveryField(t *testing.T) {
	var check policies.ExplainedCheck
	filled(t, &check)
	check.Candidate = &policies.ExplainedSide{}
	filled(t, check.Candidate)
	filled(t, &check.Authoritative)
	check.Authoritative.Error = "" // an error takes the place of the limit
	var skipped policies.Skipped
	filled(t, &skipped)

	var text strings.Builder
	e := explanation{Checks: []explainedCheck{{ExplainedCheck: check}}, Skipped: []policies.Skipped{skipped}}
	if err := writeExplanation(&text, &e); err != nil {
		t.Fatal(err)
	}

	// A check's fields stand in its first line, then each side has a line.
	lines := strings.Split(text.String(), "\n")
	for name, label := range check.Labels {
		if !strings.Contains(text.String(), name+"="+label) {
			t.Errorf("no line has the label %s=%s", name, label)
		}
	}
	for _, part := range []struct {
		line  string
		value reflect.Value
	}{
		{lines[0], reflect.ValueOf(check)},
		{lines[1], reflect.ValueOf(check.Authoritative)},
		{lines[2], reflect.ValueOf(policies.ExplainedSide{Error: check.Candidate.Error})},
		{lines[len(lines)-2], reflect.ValueOf(skipped)},
	} {
		for i := range part.value.NumField() {
			f := part.value.Field(i)
			if f.Kind() != reflect.String && f.Kind() != reflect.Int64 || f.IsZero() {
				continue
			}
			if !strings.Contains(part.line, fmt.Sprint(f)) {
				t.Errorf("%s.%s is not in the line %q: a check's fields stand in its first line, a side's in the side's line",
					part.value.Type(), part.value.Type().Field(i).Name, part.line)
			}
		}
	}
}

func TestExplainNamesTheIntervalOfASide(t *testing.T) {
	_, out, talk := shell(t, "", "explain", "../../examples/policies/synchronized.yaml", "--request", `{"method":"GET","ip":"192.0.2.1"}`)
	if want := "candidate      token_bucket  600 per 1m, burst 60, synchronized every 100ms\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in %s%s", want, out, talk)
	}
}
