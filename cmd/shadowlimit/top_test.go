package main

import (
	"strings"
	"testing"

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
		{[]string{"top", "writes", "-o", "json"}, 0, []string{`"policy": "writes"`, `"key": "alice"`, `"distinct": 3`, `"share": 0.333`}},
		{[]string{"top", "writes", "-o", "xml"}, 2, []string{"want text or json"}},
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
