package demo

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// The file of a rehearsal has one policy, which is as the user has written it, but for its candidate's limit of broken requests.
func TestPolicyFileOfARehearsal(t *testing.T) {
	const file = `version: 1
name: shop
policies:
  - name: gone
    key: &client request.ip
    authoritative: &side { algorithm: token_bucket, limit: 7, window: 1m, burst: 9 }
  - name: clients
    key: *client
    authoritative: *side
    candidate: { algorithm: token_bucket, limit: 'request.method == "GET" ? 5 : 6', window: 1m, burst: 3, store: new }
    promotion: { soak: 30h, mode: manual }
  - name: first
    group: { name: pair, charge: all_or_nothing }
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 7, window: 1m }
    candidate: { algorithm: gcra, limit: 5, window: 1m }
  - name: second
    group: { name: pair }
    authoritative: { algorithm: fixed_window, limit: 7, window: 1h }
    candidate: { algorithm: gcra, limit: 5, window: 1h }
promotion:
  divergence: 3%
  change_window: { days: [mon], from: "09:00", to: "16:00" }
`
	for name, text := range map[string]string{"clients": "token_bucket:5/1m:burst=3", "pair": "gcra:5/1m"} {
		r := Rehearsal{File: "p.yaml", Text: []byte(file), Policy: name, Promotion: map[string]string{"soak": "20h", "newly_denied": "4%"}}
		written, err := r.policyFile()
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := policies.Load("p.yaml", written)
		if err != nil || len(loaded.Policies) != 1 || loaded.Policies[0].Name != name {
			t.Fatalf("%s: %v in\n%s", name, err, written)
		}

		p := loaded.Policies[0]
		if got := p.Promotion; got.Mode != "automatic" || got.ChangeDays != nil || got.Soak.Hours() != 20 || got.NewlyDenied != 0.04 ||
			got.Divergence != 0.03 {
			t.Errorf("%s: %+v", name, got)
		}
		if sides := p.Sides; sides[0].Store+sides[1].Store != "" || !strings.Contains(limitOf(t, p, http.Header{}), text) {
			t.Errorf("%s: %+v", name, sides)
		}
		if got := limitOf(t, p, http.Header{brokenHeader: {"1"}}); !strings.Contains(got, ":0/1m") {
			t.Errorf("%s: a broken request has the limit %s", name, got)
		}
	}
}

// limitOf is the candidate of a request.
func limitOf(t *testing.T, p *policies.Policy, headers http.Header) string {
	t.Helper()
	c, matches, err := p.Charge(context.Background(), &policies.Request{Method: "GET", Headers: headers, IP: "192.0.2.1", User: "ann"})
	if err != nil || !matches {
		t.Fatal(matches, err)
	}
	side := c.Sides[algorithms.Candidate]
	if g := side.Group(); g != nil {
		return g.Members[0].Algorithm.Name() + ":" + g.Members[0].Limit.String()
	}
	return side.Algorithm.Name() + ":" + side.Limit.String()
}

// Aliases of aliases do not fill the memory.
func TestPolicyFileIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\npolicies: []\na0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n")
	for n := range 9 {
		name := "a" + string(rune('0'+n))
		b.WriteString("a" + string(rune('1'+n)) + ": &a" + string(rune('1'+n)) + " [" + strings.Repeat("*"+name+", ", 10) + "]\n")
	}
	if _, err := (&Rehearsal{File: "p.yaml", Text: []byte(b.String())}).policyFile(); err == nil || !strings.Contains(err.Error(), "aliases") {
		t.Error(err)
	}
}
