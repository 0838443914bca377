package main

import (
	"encoding/csv"
	"strings"
	"testing"
	"unicode"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/policies"
)

func TestTop(t *testing.T) {
	_, h := service(t)
	for user, n := range map[string]int{"alice": 2, "bob,\"x\"": 3, "carol": 5} {
		for range n {
			h.Decide(t.Context(), &policies.Request{User: user})
		}
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		args   []string
		status int
		want   []string // in this order
	}{
		{[]string{"top", "writes"}, 0, []string{
			"0 % of the keys", "3 keys newly denied", "33.3 % of it", "alice",
		}},
		{
			[]string{"top", "writes", "--denied"}, 0,
			[]string{
				"2 keys denied by the authoritative", "75 % of it", "3", "carol", "1", `bob`,
			},
		},
		{
			[]string{"top", "writes", "--denied", "-o", "csv"}, 0,
			[]string{"key,count,error\ncarol,3,0\n\"bob,\"\"x\"\"\",1,0\n"},
		},
		{[]string{"top", "writes", "-o", "json"}, 0, []string{`"policy": "writes"`, `"key": "alice"`, `"distinct": 3`, `"share": 0.333`}},
		{[]string{"top", "writes", "-o", "xml"}, 2, []string{"want text, json or csv"}},
		{[]string{"top", "nothing"}, 1, []string{"nothing"}},
		{[]string{"status", "-o", "csv"}, 2, []string{"want text or json"}},
	}

	for _, tt := range tests {
		status, out, talk := shell(t, "", tt.args...)
		rest := out + talk
		for _, part := range tt.want {
			_, after, found := strings.Cut(rest, part)
			if rest = after; !found {
				t.Errorf("%v: no %q in\n%s%s", tt.args, part, out, talk)
				break
			}
		}

		if status != tt.status {
			t.Errorf("%v: status %d", tt.args, status)
		}
	}
}

// Clients choose keys: none reaches a terminal or a spreadsheet as more than text, and each has
// its line.
func TestHostileKeysInCSV(t *testing.T) {
	keys := map[string]string{
		"\x1b]0;owned\x07":       `\x1b]0;owned\a`,
		"a\r\nb,\"c\"":           `a\r\nb,"c"`,
		"\u202egpj\u009b31m":     `\u202egpj\u009b31m`,
		"\xff":                   `\xff`,
		`=HYPERLINK("//x")`:      `'=HYPERLINK("//x")`,
		"+1":                     "'+1",
		"-1":                     "'-1",
		"@SUM(1)":                "'@SUM(1)",
		"\t=1":                   `\t=1`,
		"\uff1d1":                "'\uff1d1",
		"1=1":                    "1=1",
		`a\|b`:                   `a\|b`,
		"J\u00f6rg \u6771\u4eac": "J\u00f6rg \u6771\u4eac",
		"":                       "",
	}
	report := &topReport{}
	for key := range keys {
		report.Keys = append(report.Keys, evidence.KeyCount{Key: key})
	}

	var out strings.Builder
	if err := writeTopCSV(&out, report); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil || len(rows) != 1+len(keys) {
		t.Fatalf("%v: %q", err, rows)
	}
	for i, row := range rows[1:] {
		if want := keys[report.Keys[i].Key]; row[0] != want {
			t.Errorf("%q: %q, want %q", report.Keys[i].Key, row[0], want)
		}
	}
	if strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q", out.String())
	}
}
