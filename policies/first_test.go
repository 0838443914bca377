package policies_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/policies"
)

// promoting is a file whose one policy has a key of two parts and these fields of a promotion.
func promoting(fields string) string {
	return "data: {ours: [acme, beta], largest: [huge], empty: []}\n" +
		onePolicy("key: [request.user, request.route]\n    promotion: {"+fields+"}")
}

const oursFirst = `first: 'key[0] in data.ours || key[1] == "/huge"'`

func TestFirstKeys(t *testing.T) {
	p := loadPolicy(t, promoting(oursFirst))
	for _, tt := range []struct {
		user, route string
		want        bool
	}{
		{"somebody", "/a", false},
		{"acme", "/a", true},
		{"huge", "/a", false},
		{"huge", "/huge", true},
		{"acme|/huge", "/a", false},
		{`acme\`, "/huge", true},
	} {
		r := &policies.Request{User: tt.user, Route: tt.route}
		got, err := p.First(t.Context(), r)
		if got != tt.want || err != nil {
			t.Errorf("%s on %s: first %t, %v, want %t", tt.user, tt.route, got, err, tt.want)
		}

		// A command knows nothing but the key, and finds the same.
		c, _, err := p.Check(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.FirstKey(c.Key); got != tt.want || err != nil {
			t.Errorf("key %s: first %t, %v, want %t", c.Key, got, err, tt.want)
		}
	}
}

// A key is first or not, whatever else is in the request, and a command knows it by the key alone.
func TestFirstDependsOnTheKeyAlone(t *testing.T) {
	p := loadPolicy(t, promoting(oursFirst))

	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom([]string{"acme", "huge", "/huge", "", `\`, "|"}), rapid.StringN(0, 20, 100))
		user, route := part.Draw(t, "user"), part.Draw(t, "route")
		other := policies.Request{
			User: user, Route: route, Method: rapid.String().Draw(t, "method"),
			Path: rapid.String().Draw(t, "path"), Size: rapid.Int64().Draw(t, "size"),
		}

		want, err := p.First(t.Context(), &policies.Request{User: user, Route: route})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.First(t.Context(), &other); got != want || err != nil {
			t.Fatalf("%q on %q: first %t, %v, and with another request %t", user, route, want, err, got)
		}

		c, _, err := p.Check(t.Context(), &other)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(c.Key, "#") {
			return // nothing but the hash is left of the key
		}
		if got, err := p.FirstKey(c.Key); got != want || err != nil {
			t.Fatalf("%q on %q: first %t, and of key %q %t, %v", user, route, want, c.Key, got, err)
		}
	})
}

// A key that is charged under its hash is asked for by what it was.
func TestLongKeysAreFirstInClear(t *testing.T) {
	p := loadPolicy(t, promoting(`first: 'key[0].startsWith("aaa")'`))
	r := &policies.Request{User: strings.Repeat("a", 300)}

	if got, err := p.First(t.Context(), r); !got || err != nil {
		t.Errorf("a long key: first %t, %v", got, err)
	}
	c, _, _ := p.Check(t.Context(), r)
	if _, err := p.FirstKey(c.Key); err == nil || !strings.Contains(err.Error(), "its parts are not known") {
		t.Errorf("the hash of a long key: %v", err)
	}
}

func TestAKeyOfWhichFirstFailsIsNotFirst(t *testing.T) {
	for fields, want := range map[string]string{
		`first: 'key[2] == ""'`:                             "first key[2]",
		`first: 'int(key[0]) > 7'`:                          "first int(key[0])",
		`first: 'key[0].charAt(99) == "x"'`:                 "first key[0].charAt",
		`first: 'data.ours[size(key[0]) + 99] == key[0]'`:   "first data.ours",
		`first: 'false || key[0].split("")[99] == key[0] '`: "first false ||",
	} {
		p := loadPolicy(t, promoting(fields))
		got, err := p.First(t.Context(), &policies.Request{User: "acme"})
		if got || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: first %t, %v, want an error of %s", fields, got, err, want)
		}
	}
}

// Of a key of another policy nothing is claimed.
func TestKeysOfOtherPoliciesAreNotFirst(t *testing.T) {
	p := loadPolicy(t, promoting(oursFirst))
	if _, err := p.FirstKey("acme"); err == nil || !strings.Contains(err.Error(), "got 1 parts: the keys of this policy have 2") {
		t.Errorf("one part: %v", err)
	}
}

// A policy's expression replaces the file's, and each policy has its own key.
func TestFirstOfTheFileIsInherited(t *testing.T) {
	set := load(t, onePolicy("key: request.user\n    promotion: {first: 'key[0] == \"b\"'}")+
		"promotion: {first: 'key[0] == \"a\"'}\n")
	p := set.Policies[0]

	for key, want := range map[string]bool{"a": false, "b": true} {
		if got, err := p.FirstKey(key); got != want || err != nil {
			t.Errorf("%s: first %t, %v, want %t", key, got, err, want)
		}
	}
}

// It is no part of the fingerprint: the evidence goes on when it changes.
func TestFirstIsNoPartOfTheFingerprint(t *testing.T) {
	if a, b := loadPolicy(t, promoting(oursFirst)).Fingerprint(), loadPolicy(t, promoting("first: 'key[0] == \"a\"'")).Fingerprint(); a != b {
		t.Errorf("fingerprints %s and %s", a, b)
	}
}

// An operator's expression cannot stall a request.
func TestDearConditionsOnKeysAreRefused(t *testing.T) {
	dear := promoting(`first: 'key.exists(k, k.matches(key[0]))'`)
	if _, err := policies.Load("p.yaml", []byte(dear)); err == nil || !strings.Contains(err.Error(), "at most 10000 are allowed") {
		t.Errorf("a pattern of the key: %v", err)
	}

	// What operators ask for is cheap enough.
	for _, usual := range []string{
		"key[0] in data.ours", "key.exists(k, k.startsWith(\\\"x\\\"))", "key[0].matches(\\\"^acme-[0-9]+$\\\")",
		"key[0] in data.ours || key[1] in data.largest || size(key) > 2",
	} {
		load(t, promoting(`first: "`+usual+`"`))
	}
}

var badFirst = []badFile{
	{
		"a request in first", promotion("first: request.method == 'GET'"),
		6, 24, "there is no request.method",
	},
	{"a variable in first", promotion("first: variables.x == 'a'"), 6, 24, "there is no variables.x"},
	{"text in first", promotion("first: 'key[0]'"), 6, 24, "the expression is of type string: want bool"},
	{"a typing error of key", promotion("first: 'keys[0] == \"a\"'"), 6, 25, "did you mean key?"},
	{"a number as a key's part", promotion("first: 'key[0] == 7'"), 6, 32, "(string, int)"},
	{"no expression", promotion("first: [a]"), 6, 24, "first: want a CEL expression"},
}
