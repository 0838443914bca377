package policies_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

func TestDifference(t *testing.T) {
	const before = `version: 1
name: test
data: { limits: { acme: 10, zed: 20 } }
policies:
  - name: a
    key: [request.user, request.route]
    authoritative: { algorithm: fixed_window, limit: 10, window: 1m }
    candidate: { algorithm: gcra, limit: 10, window: 1m }
  - name: gone
    key: request.user
    authoritative: { algorithm: gcra, limit: 1, window: 1m }
`
	after := strings.NewReplacer(
		"zed: 20", "zed: 25, new: 1",
		"request.route]", "request.ip]",
		"limit: 1,", "limit: 2,",
		"name: gone", "on_error: deny\n    name: come",
	).Replace(before)
	want := []string{
		"+ data.limits.new: 1",
		"~ data.limits.zed: 20 -> 25",
		"~ policies.a.key: [request.user, request.route] -> [request.user, request.ip]",
		"+ policies.come.authoritative.algorithm: gcra",
		"+ policies.come.authoritative.limit: 2",
		"+ policies.come.authoritative.window: 1m",
		"+ policies.come.key: request.user",
		"+ policies.come.name: come",
		"+ policies.come.on_error: deny",
		"- policies.gone.authoritative.algorithm: gcra",
		"- policies.gone.authoritative.limit: 1",
		"- policies.gone.authoritative.window: 1m",
		"- policies.gone.key: request.user",
		"- policies.gone.name: gone",
		"! policies.a: fingerprint X -> Y: where Y takes over, by a larger generation or by adopt, its evidence starts in shadow",
	}

	a, b := load(t, before), load(t, after)
	fingerprints := strings.NewReplacer(a.Policies[0].Fingerprint(), "X", b.Policies[0].Fingerprint(), "Y")
	var got []string
	for _, c := range policies.Difference(a, b) {
		got = append(got, fingerprints.Replace(c.String()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	if d := policies.Difference(a, load(t, "# moved\n"+before)); len(d) != 0 {
		t.Errorf("a comment is a change: %v", d)
	}
}

func TestExpectedDifferencesEnd(t *testing.T) {
	set := load(t, onePolicy(`key: request.user
    promotion:
      expected:
        - { when: request.user == "bulk", direction: newly_denied, until: 2999-01-02, owner: team-a }
        - { when: int(request.user) > 1, direction: newly_allowed, until: "2999-01-01T12:00:00Z", owner: team-b }`))

	for _, tt := range []struct {
		user, at string
		want     algorithms.Expected
	}{
		{"bulk", "2999-01-01T23:59:59Z", algorithms.Expected{NewlyDenied: true}},
		{"bulk", "2999-01-02T00:00:00Z", algorithms.Expected{}},
		{"other", "2026-01-01T00:00:00Z", algorithms.Expected{}}, // no number: the second condition fails
		{"2", "2999-01-01T11:59:59Z", algorithms.Expected{NewlyAllowed: true}},
		{"2", "2999-01-01T12:00:00Z", algorithms.Expected{}},
	} {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}

		if got := set.Policies[0].Expected(t.Context(), &policies.Request{User: tt.user, Time: at}); got != tt.want {
			t.Errorf("%s at %s: %+v, want %+v", tt.user, tt.at, got, tt.want)
		}
	}

	// The owner is shown, so that a reader knows which team to ask.
	want := []string{
		`newly_denied until 2999-01-02, owner team-a, when request.user == "bulk"`,
		`newly_allowed until 2999-01-01T12:00:00Z, owner team-b, when int(request.user) > 1`,
	}
	if got := set.Policies[0].Declarations(); !slices.Equal(got, want) {
		t.Errorf("declarations %q, want %q", got, want)
	}
}
