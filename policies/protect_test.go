package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A protected key is named by the text under which requests are charged.
func TestProtectedKeys(t *testing.T) {
	for list, want := range map[string][]string{
		"[acme, 42, 'a|b', true]": {"acme", "42", "a|b", "true"}, "[\"x|/y\"]": {"x|/y"},
	} {
		p := loadPolicy(t, promoting("protect: "+list))
		if !slices.Equal(p.Promotion.Protect, want) {
			t.Errorf("%s: %v, want %v", list, p.Promotion.Protect, want)
		}
	}

	// A policy's list replaces the file's.
	set := load(t, onePolicy("key: request.user\n    promotion: {protect: [a]}")+"promotion: {protect: [b, c]}\n")
	if got := set.Policies[0].Promotion.Protect; !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v, want the policy's", got)
	}
	told := set.Explain(&policies.Request{User: "a"})
	if len(told.Checks) != 1 || !told.Checks[0].Protected {
		t.Errorf("explained %+v, want a protected key", told.Checks)
	}
}

func keysOf(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint("k", i))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

var badClients = []badFile{
	{"no protected key", promotion("protect: []"), 6, 26, "at least one key"},
	{"an empty protected key", promotion("protect: [a, '']"), 6, 30, "an empty key"},
	{"a protected key that is none", promotion("protect: [a, ~]"), 6, 30, "want text"},
	{"a protected key twice", promotion("protect: [a, b, a]"), 6, 33, "a is in the list already"},
	{"a protected key that is a list", promotion("protect: [[a, b]]"), 6, 27, "want text"},
	{"too many protected keys", promotion("protect: " + keysOf(33)), 6, 177, "33 keys: want at most 32"},
	{"protect of an expression", promotion("protect: request.user == 'a'"), 6, 26, "protect: want a list"},
}
