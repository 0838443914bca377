package policies_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// checkout is the example of the documentation, whole.
func checkout(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/checkout.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, text string) *policies.Set {
	t.Helper()
	set, err := policies.Load("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func loadPolicy(t testing.TB, text string) *policies.Policy {
	t.Helper()
	return load(t, text).Policies[0]
}

// onePolicy is a file with one policy of these fields besides name and sides.
func onePolicy(fields string) string {
	return "version: 1\nname: test\npolicies:\n  - name: p\n    " + fields + "\n" +
		"    authoritative: {algorithm: fixed_window, limit: 10, window: 1m}\n" +
		"    candidate: {algorithm: gcra, limit: 10, window: 1m}\n"
}

// side is a file with one policy whose authoritative has these fields.
func side(fields string) string {
	return "version: 1\nname: a\npolicies:\n  - name: p\n    authoritative: {" + fields + "}\n    key: request.ip\n"
}

// goodCandidate is a candidate for withNone.
const goodCandidate = "candidate: {algorithm: gcra, limit: 10, window: 1m}"

// withNone is a file with one policy whose authoritative is none, with these other fields.
func withNone(fields string) string {
	return "version: 1\nname: a\ngeneration: 1\npolicies:\n  - name: p\n    key: request.ip\n    authoritative: none\n    " + fields + "\n"
}

// A file may say that there is no limit today. That is part of what is compared, and charges nothing.
func TestFirstLimit(t *testing.T) {
	set := load(t, withNone(goodCandidate))
	p := set.Policies[0]
	a := p.Sides[algorithms.Authoritative]
	if !a.None() || a.Custom() || a.String() != "none" || a.Name() != "none" || len(set.Warnings) > 0 {
		t.Errorf("%+v, warnings %v", a, set.Warnings)
	}

	c, matches, err := p.Check(t.Context(), &policies.Request{IP: "192.0.2.1"})
	if !matches || err != nil || c.Sides[0].Present() || !c.Sides[1].Present() {
		t.Errorf("%+v %v %v", c, matches, err)
	}
	e, err := json.Marshal(set.Explain(&policies.Request{IP: "192.0.2.1"}).Checks[0])
	if err != nil || !strings.Contains(string(e), `"authoritative":{"algorithm":"none"},"candidate":{"algorithm":"gcra","limit":10,`) {
		t.Errorf("%s %v", e, err)
	}

	alone := load(t, strings.NewReplacer("authoritative: none", strings.Replace(goodCandidate, "candidate", "authoritative", 1), goodCandidate, "").
		Replace(withNone(goodCandidate)))
	if alone.Policies[0].Fingerprint() == p.Fingerprint() {
		t.Error("a first limit has the fingerprint of its candidate alone")
	}
}

// candidate is a file with one policy of these fields whose candidate has those.
func candidate(fields, limiter string) string {
	return strings.Replace(onePolicy(fields), "candidate: {algorithm: gcra, limit: 10", "candidate: {"+limiter, 1)
}

// promotion is a file with one policy whose promotion section has these fields.
func promotion(fields string) string {
	return onePolicy("key: request.user\n    promotion: {" + fields + "}")
}

func TestFingerprintIsWhatIsCompared(t *testing.T) {
	base := loadPolicy(t, checkout(t)).Fingerprint()
	for change, sameFingerprint := range map[string]bool{
		"limit: 100, window: 1m }>limit: 101, window: 1m }": false,
		"burst: 20>burst: 21":                               false,
		"request.route]>request.path]":                      false,
		"orValue(100)>orValue(99)":                          false,
		"acme: 9000>acme: 9001":                             true,
		"soak: 48h>soak: 24h":                               true,
		`orValue("anonymous")>orValue("nobody")`:            false,
		"? 10 : 1>? 20 : 1":                                 true,
	} {
		from, to, _ := strings.Cut(change, ">")
		if !strings.Contains(checkout(t), from) {
			t.Fatalf("the example has no %q", from)
		}

		changed := strings.Replace(checkout(t), from, to, 1)
		if got := loadPolicy(t, changed).Fingerprint(); (got == base) != sameFingerprint {
			t.Errorf("%s: fingerprint %s, before %s", change, got, base)
		}
	}
}

// perProcess is a file with one policy whose authoritative and candidate have these fields.
func perProcess(authoritative, next string) string {
	return strings.Replace(side(authoritative), "    key:", "    candidate: {"+next+"}\n    key:", 1)
}

// A budget in each instance is another limiter than one for all.
func TestPerProcessIsPartOfTheFingerprint(t *testing.T) {
	const today, next = "limiter: mine, limit: 10, window: 1s", "algorithm: gcra, limit: 30, window: 1s"
	without := loadPolicy(t, perProcess(today, next))
	no := loadPolicy(t, perProcess(today+", per_process: false", next))
	yes := loadPolicy(t, perProcess(today+", burst: 20, per_process: true", next))
	one := loadPolicy(t, perProcess(today+", burst: 20", next))
	if without.Fingerprint() != no.Fingerprint() || yes.Fingerprint() == one.Fingerprint() {
		t.Errorf("fingerprints: without %s, false %s; true %s, without %s", without.Fingerprint(), no.Fingerprint(), yes.Fingerprint(), one.Fingerprint())
	}
	if got, want := yes.Sides[0].String(), `mine (custom limiter, revision "1"), 10 per 1s, burst 20 in each instance`; got != want {
		t.Errorf("described as %s, want %s", got, want)
	}
}

func TestPolicyOverridesPromotionOfTheFile(t *testing.T) {
	p := loadPolicy(t, onePolicy("key: request.ip\n    promotion:\n      soak: 72h\n"+
		"      change_window: {days: [sat], from: '10:00', to: '24:00', zone: Europe/Berlin}")+
		"promotion: {soak: 24h, dwell: 2h, mode: automatic, canary: [5%, 100%]}\n").Promotion

	if p.Soak != 72*time.Hour || p.Dwell != 2*time.Hour || p.Mode != "automatic" {
		t.Errorf("promotion %+v", p)
	}
	if len(p.Canary) != 2 || p.Canary[0] != 5 {
		t.Errorf("canary %v", p.Canary)
	}
	if p.ChangeZone.String() != "Europe/Berlin" || p.ChangeTo != 24*time.Hour || p.ChangeDays[0] != time.Saturday {
		t.Errorf("change window %+v", p)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(checkout(f))
	f.Add(onePolicy("key: [request.ip, '1']\n    cost: 2 + 2"))

	f.Fuzz(func(t *testing.T, text string) {
		set, err := policies.Load("p.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, p := range set.Policies {
			p.Check(t.Context(), &policies.Request{Path: "/x"})
			p.First(t.Context(), &policies.Request{Path: "/x"})
		}
	})
}

// The documentation promises one loop inside a loop.
func TestALoopInALoopIsTaken(t *testing.T) {
	text := onePolicy("when: '[1, 2].all(a, [1, 2].exists(b, a == b))'\n    key: request.ip")
	if _, err := policies.Load("p.yaml", []byte(text)); err != nil {
		t.Error(err)
	}
}

// shortSoak is a check that finds every soak below a day.
func shortSoak(severity string) policies.Check {
	return func(p policies.Promotion) []policies.Finding {
		if p.Soak >= 24*time.Hour {
			return nil
		}
		return []policies.Finding{{Severity: severity, Fields: []string{"soak"}, Message: "too short"}}
	}
}

// A check sees the fields that a section inherits, and a finding stands where its
// field stands. A field that a policy inherits is found once.
func TestChecksOfPromotion(t *testing.T) {
	tests := []struct {
		name, file, policy string
		want               []string // line:column
	}{
		{"named by the policy", "soak: 30h", "soak: 1h", []string{"6:23"}},
		{"named by the file", "soak: 1h", "mode: manual", []string{"9:19"}},
		{"named by both", "soak: 1h", "soak: 2h", []string{"6:23", "9:19"}},
		{"overridden, and long enough", "soak: 1h", "soak: 40h", []string{"9:19"}},
		{"named by neither", "mode: manual", "mode: manual", []string{"6:16", "9:12"}},
	}
	for _, tt := range tests {
		text := onePolicy("key: request.ip\n    promotion: {"+tt.policy+"}") + "promotion: {" + tt.file + "}\ngeneration: 1\n"
		set, err := policies.Load("p.yaml", []byte(text), shortSoak(policies.SeverityWarning))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}

		var got []string
		for _, w := range set.Warnings {
			got = append(got, fmt.Sprintf("%d:%d", w.Line, w.Column))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: found at %v, want %v", tt.name, got, tt.want)
		}
	}
}

// An error of a check is an error of the file.
func TestAnErrorOfACheckRefusesTheFile(t *testing.T) {
	text := onePolicy("key: request.ip\n    promotion: {soak: 1h}")

	_, err := policies.Load("p.yaml", []byte(text), shortSoak(policies.SeverityError))
	var problems *policies.Problems
	if !errors.As(err, &problems) || len(problems.List) != 1 || problems.List[0].Column != 23 {
		t.Errorf("got %v, want one problem at the soak", err)
	}
}

// A secret that stands where none belongs is not shown, because logs of builds keep what is shown.
func TestProblemsShowNoSecret(t *testing.T) {
	for _, line := range []string{
		"password: hunter2", "redis_password : 'hunter2'", "  - SECRET: hunter2", "api_key: hunter2", "redis: redis://me:hunter2@host:6379",
	} {
		_, err := policies.Load("p.yaml", []byte(onePolicy("key: request.ip")+line+"\n"))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// A file cannot move the cursor of the terminal on which its problems are shown.
func TestProblemsAreShownWithoutControlCharacters(t *testing.T) {
	_, err := policies.Load("p.yaml", []byte("version: \"\\x1b[31m\" # \x1b[31m\u009b\nname: a\n"))
	if err == nil || strings.ContainsAny(strings.ReplaceAll(err.Error(), "\n", ""), "\x1b\u009b") {
		t.Errorf("%q", err)
	}
}
