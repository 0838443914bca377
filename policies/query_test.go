package policies

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const queryFile = `
version: 1
name: test
variables:
  op: request.query[?"op"].orValue("")
policies:
  - { name: lenient, when: variables.op == "search", key: request.ip, authoritative: { algorithm: gcra, limit: 5, window: 1h } }
  - { name: strict, when: variables.op == "search", on_error: deny, key: request.ip, authoritative: { algorithm: gcra, limit: 5, window: 1h } }
  - { name: other, when: 'request.query[?"other"].orValue("") == ""', on_error: deny, key: request.ip, authoritative: { algorithm: gcra, limit: 5, window: 1h } }
`

// A client leaves no policy by what it adds to a query. What no program reads for sure is an error where on_error denies.
func TestQueryThatCannotBeRead(t *testing.T) {
	set, err := Load("test.yaml", []byte(queryFile))
	if err != nil {
		t.Fatal(err)
	}

	for raw, want := range map[string]string{
		"op=search": "lenient strict other",
		"op=search" + strings.Repeat("&", 10_001):  "lenient strict other",
		strings.Repeat("a&", 20_000) + "op=search": "lenient strict other",
		"op=search&op=%zz":                         "lenient strict! other",
		"op=%zz&op=search":                         "lenient strict! other",
		"op=search&a=%zz":                          "lenient strict other",
		"op=search;":                               "strict! other",
		"a=1;op=search":                            "strict! other",
		"op=%zz":                                   "strict! other",
		"%6fp=search":                              "lenient strict other",
		"op%zz=search":                             "other",
		"op=search&other=;":                        "lenient strict other!",
	} {
		r := &Request{RawQuery: raw}
		var got []string
		for _, p := range set.Policies {
			switch _, matches, err := p.Check(t.Context(), r); {
			case err != nil:
				got = append(got, p.Name+"!")
			case matches:
				got = append(got, p.Name)
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%.40q: %s, want %s", raw, got, want)
		}
	}
}

// Values are those of net/url, which handlers in Go use.
func TestQueryIsThatOfHandlers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "=", "&", ";", "%", "%61", "+", "%zz", "%26"})).Draw(t, "query"), "")
		want, _ := url.ParseQuery(raw)
		got := parseQuery(raw).Value().(map[string]string)
		if len(got) != len(want) {
			t.Fatalf("%q: %q, want %q", raw, got, want)
		}
		for name, values := range want {
			if got[name] != values[0] {
				t.Fatalf("%q: %q, want %q", raw, got, want)
			}
		}
	})
}
