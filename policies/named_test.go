package policies_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
	"github.com/shadowlimit/shadowlimit/policies"
)

// condition draws an expression about the two parts of a key.
func condition(t *rapid.T, depth int) string {
	if depth > 0 && rapid.Bool().Draw(t, "joined") {
		left, operator := condition(t, depth-1), rapid.SampledFrom([]string{"&&", "||"}).Draw(t, "operator")
		return fmt.Sprintf("(%s %s %s)", left, operator, condition(t, depth-1))
	}
	part := rapid.SampledFrom([]string{"key[0]", "key[1]"}).Draw(t, "part")
	return rapid.SampledFrom([]string{
		part + " == 'acme'", "'huge' == " + part, part + " in ['acme', 'x']", part + " in data.ours", part + " in data.largest",
		part + " in data.empty", part + " != 'acme'", part + ".startsWith('a')", "!(" + part + " in data.ours)", "key[0] == key[1]",
		"size(" + part + ") > 3", "true", "false",
	}).Draw(t, "leaf")
}

// A warning that no key can match is true of every key, and where both parts have a list and a key of them matches, there is none.
func TestNoKeyCanMatchIsTrue(t *testing.T) {
	parts := []string{"acme", "beta", "huge", "x", "a", "other", ""}
	rapid.Check(t, func(t *rapid.T) {
		text := condition(t, 3)
		set, err := policies.Load("p.yaml", []byte(placing(fmt.Sprintf("protect: {keys: %q, losing: 5%%}", text))))
		if err != nil {
			t.Fatal(err)
		}
		warned := strings.Contains(fmt.Sprint(set.Warnings), "can match, so none is protected")
		for _, user := range parts {
			for _, route := range parts {
				protected, err := set.Policies[0].Protected(t.Context(), &policies.Request{User: user, Route: route})
				if protected && warned {
					t.Fatalf("%s: a warning says that no key can match, but %q, %q does (%v)", text, user, route, err)
				}
			}
		}
	})
}

// many is a list of n texts.
func many(name string, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(name, i)
	}
	return strings.Join(list, ",")
}

// manyTables are lists of 200, 10,000 and 12,000 texts, and a table of 12,000.
var manyTables = map[string]string{
	"few": "[" + many("f", 200) + "]", "most": "[" + many("m", 10_000) + "]", "more": "[" + many("n", 12_000) + "]",
	"table": "{" + strings.ReplaceAll(many("t", 12_000), ",", ": 1, ") + ": 1}",
}

// ofMany is a file of a policy with a key and a protect section, and the tables that it reads.
func ofMany(key, keys string) string {
	data := "data: {x: 1"
	for name, table := range manyTables {
		if strings.Contains(keys, "data."+name) {
			data += ", " + name + ": " + table
		}
	}
	return data + "}\n" + onePolicy(fmt.Sprintf("key: %s\n    promotion: {protect: {keys: %q, losing: 5%%}}", key, keys))
}

const (
	userKey = "request.user"
	bothKey = "[request.user, request.route]"
	intKey  = "int(request.user)"
)

// protectedLists are conditions about the parts of a key, and what is said of them.
var protectedLists = []struct{ key, keys, want string }{
	{userKey, "key[0] in data.most", ""},
	{userKey, "key[0] in data.more", "it names 12,000 keys of p or more"},
	{userKey, "key[0] in data.table", "it names 12,000 keys"},
	{bothKey, "key[0] in data.more", "it names 12,000 keys"},

	{userKey, "key[0] in data.most || key[0] == 'x'", "it names 10,001 keys"},
	{userKey, "key[0] in data.most || key[0] in data.few", "it names 10,200 keys"},
	{bothKey, "key[0] in data.few && key[1] in data.few", "it names 40,000 keys"},
	{userKey, "key[0] in data.more && key[0] in data.few", "no key can match"},
	{bothKey, "key[0] in data.more && key[1] == '/pay'", "it names 12,000 keys"},

	// These are evaluated, for their text does not say how many they are true for.
	{bothKey, "key[0] == 'x' && key[1] in data.table || key[0] == 'y' && key[1] == 'z'", "it names 12,001 keys"},
	{userKey, "key[0] in data.table && key[0] != 't1'", "it names 11,999 keys"},
	{userKey, "key[0] in data.table && key[0].startsWith('t1')", ""},
	{userKey, "key[0] in data.few && key[0].startsWith('g')", "no key of p can match"},
	{userKey, "key[0] in data.few && key[0].startsWith('f19')", ""},

	// Of each text it is not known whether a key of it matches, and of long lists not each is asked.
	{bothKey, "key[0] in data.table && key[1] != 'x'", ""},
	{userKey, "key[0] in data.more && key[0] != 'n1'", ""},

	{intKey, "key[0] in data.few", "no key of p can match"},
	{intKey, "key[0] in ['7', '07']", ""},
	{intKey, "key[0] == '07'", "no key of p can match"},
	{"request.user == 'a'", "key[0] in ['yes']", "no key of p can match"},
}

// Counts beyond what the ledger counts are found in lists, their joins, and combinations; and lists of which no key can be.
func TestProtectedLists(t *testing.T) {
	for _, tt := range protectedLists {
		set, err := policies.Load("p.yaml", []byte(ofMany(tt.key, tt.keys)))
		if err != nil {
			t.Fatal(err)
		}

		var warnings []string
		for _, w := range set.Warnings {
			if strings.HasPrefix(w.Message, "protect: ") {
				warnings = append(warnings, w.Message)
			}
		}
		if got := strings.Join(warnings, "; "); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || len(warnings) > 1 {
			t.Errorf("%s of key %s: %q, want %q", tt.keys, tt.key, got, tt.want)
		}
	}
}
