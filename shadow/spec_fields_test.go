package shadow

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
)

// fullFile has every field of a promotion, each with a value that is not the default.
const fullFile = `
version: 1
name: test
variables: { tenant: request.user }
policies:
  - name: full
    key: request.user
    labels: { team: payments }
    on_store_failure: allow
    authoritative: { algorithm: gcra, limit: 2, window: 1h, store: east }
    candidate: { algorithm: token_bucket, store: west, limit: 2, window: 1h, burst: 2 }
    promotion:
      mode: automatic
      divergence: 3%
      newly_denied: 4%
      newly_allowed: 40%
      extra_load: 20%
      soak: 72h
      dwell: 3h
      min_denials: 300
      min_denied_keys: 30
      canary: [5%, 20%]
      protect: [c]
      first: key[0] == "a"
      change_window: { days: [tue], from: "10:00", to: "11:00", zone: Europe/Berlin }
      expected: [{ when: 'request.user == "x"', direction: newly_denied, until: 2999-01-01, owner: team }]
`

// measuredLater are the fields of a Spec that no policy file decides, with the reason.
var measuredLater = map[string]string{
	"Spec.Config.Config.Graded": "it is true where the file declares no soak, and fullFile declares one",
}

// checkFields reports the fields of a struct that are zero, or as in the one made without a promotion section.
func checkFields(t *testing.T, where string, v, defaults reflect.Value) {
	t.Helper()

	for i := range v.NumField() {
		name, f := where+"."+v.Type().Field(i).Name, v.Field(i)
		if _, later := measuredLater[name]; later {
			continue
		}

		switch {
		case f.Kind() == reflect.Struct:
			checkFields(t, name, f, defaults.Field(i))
		case f.IsZero():
			t.Errorf("%s is zero: give fullFile a value for it; if it has one, set the field in specOf, declared or rulesOf", name)
		case f.CanInterface() && reflect.DeepEqual(f.Interface(), defaults.Field(i).Interface()):
			t.Errorf("%s is the default, %v: give fullFile another value; if it has one, set the field in declared or rulesOf", name, f)
		}
	}
}

// adaptiveSides makes both sides of fullFile adaptive.
var adaptiveSides = strings.NewReplacer("store: east }", "store: east, adaptive: { signal: latency_p99 } }",
	"burst: 2 }", "burst: 2, adaptive: { signal: saturation } }")

// A field that is added to a policy file reaches the gate and the stages by way of the announced Spec.
func TestEveryFieldOfAPromotionReachesTheSpec(t *testing.T) {
	set, err := policies.Load("full.yaml", []byte(adaptiveSides.Replace(fullFile)))
	if err != nil {
		t.Fatal(err)
	}
	policy := set.Policies[0]

	// The first check holds that fullFile is full, the second that nothing is lost on the way.
	none := policies.Promotion{}
	checkFields(t, "Promotion", reflect.ValueOf(policy.Promotion), reflect.ValueOf(none))
	spec := specOf(policy)
	spec.Apart, spec.Copied = true, true // newMigration knows them, by the sides
	spec.FirstLimit = true               // only where there is no authoritative to fill the other fields
	spec.PerProcess[0].Requests = 1      // only of a custom side
	spec.Followed = true                 // newFollower knows that
	checkFields(t, "Spec", reflect.ValueOf(spec), reflect.ValueOf(stages.Spec{Config: stages.ConfigOf(none)}))
}

// effect is what a change of a policy file does to the announced Spec.
type effect string

const (
	newFingerprint effect = "a new fingerprint"  // something else is compared: the evidence starts over
	newSpec        effect = "another Spec"       // the controller and status know of it, and the evidence stays
	noEffect       effect = "the Spec as before" // see the row's reason
)

// specChange is a change of fullFile.
type specChange struct {
	from, to string
	effect   effect
	reason   string // for noEffect
}

// specChanges has for each field of a policy, of a side and of a promotion a change, and what it does to the Spec.
var specChanges = map[string]specChange{
	"Policy.Name":      {"name: full", "name: other", newSpec, ""},
	"Policy.Sides":     {"    candidate: { algorithm: token_bucket, store: west, limit: 2, window: 1h, burst: 2 }\n", "", newFingerprint, ""},
	"Policy.Promotion": {"mode: automatic", "mode: manual", newSpec, ""},
	"Policy.key":       {"key: request.user", "key: request.ip", newFingerprint, ""},
	"Policy.scope": {"tenant: request.user", "tenant: request.ip", noEffect,
		"a variable is compared only where the key or a limit names it, and then it is part of the fingerprint"},
	"Policy.when": {"key: request.user", "when: 'true'\n    key: request.user", noEffect,
		"it selects requests, which instances do; what was compared of the others stays true"},
	"Policy.cost": {"key: request.user", "cost: 2\n    key: request.user", noEffect,
		"both sides are charged the same cost, which is no part of the comparison"},
	"Policy.settle": {"key: request.user", "settle: '0'\n    key: request.user", noEffect,
		"both sides are changed by the same final cost, which is no part of the comparison"},
	"Policy.Labels":         {"team: payments", "team: search", newSpec, ""},
	"Policy.OnStoreFailure": {"on_store_failure: allow", "on_store_failure: deny", newSpec, ""},
	"Policy.OnError": {"key: request.user", "on_error: deny\n    key: request.user", noEffect,
		"instances decide by it without asking a controller"},

	"Side.ID":         {"gcra, limit", "gcra, id: x, limit", newFingerprint, ""},
	"Side.Residence":  {"store: east", "store: { redis: east, sync: 100ms }", newFingerprint, ""},
	"Side.Algorithm":  {"gcra, limit", "fixed_window, limit", newFingerprint, ""},
	"Side.Limiter":    {"algorithm: gcra, limit: 2, window: 1h, store: east", "limiter: mine, limit: 2, window: 1h", newFingerprint, ""},
	"Side.Revision":   {"algorithm: gcra, limit: 2, window: 1h, store: east", "limiter: mine, revision: '2', limit: 2", newFingerprint, ""},
	"Side.PerProcess": {"algorithm: gcra, limit: 2, window: 1h, store: east", "limiter: mine, limit: 2, window: 1h, per_process: true", newFingerprint, ""},
	"Side.limit":      {"gcra, limit: 2", "gcra, limit: 3", newFingerprint, ""},
	"Side.burst":      {"gcra, limit: 2", "gcra, limit: 2, burst: 3", newFingerprint, ""},
	"Side.window":     {"window: 1h, store", "window: 2h, store", newFingerprint, ""},
	"Side.adaptive":   {"gcra, limit: 2", "gcra, adaptive: { signal: latency_p99 }, limit: 2", newFingerprint, ""},
	"Side.limited":    {"gcra, limit: 2", "gcra, limit: 0", newFingerprint, ""},

	"Promotion.Mode":          {"mode: automatic", "mode: manual", newSpec, ""},
	"Promotion.Divergence":    {"divergence: 3%", "divergence: 4%", newSpec, ""},
	"Promotion.NewlyDenied":   {"newly_denied: 4%", "newly_denied: 5%", newSpec, ""},
	"Promotion.NewlyAllowed":  {"newly_allowed: 40%", "newly_allowed: 41%", newSpec, ""},
	"Promotion.ExtraLoad":     {"extra_load: 20%", "extra_load: 21%", newSpec, ""},
	"Promotion.Soak":          {"soak: 72h", "soak: 73h", newSpec, ""},
	"Promotion.Dwell":         {"dwell: 3h", "dwell: 4h", newSpec, ""},
	"Promotion.MinDenials":    {"min_denials: 300", "min_denials: 301", newSpec, ""},
	"Promotion.MinDeniedKeys": {"min_denied_keys: 30", "min_denied_keys: 31", newSpec, ""},
	"Promotion.Canary":        {"canary: [5%", "canary: [6%", newSpec, ""},
	"Promotion.ChangeDays":    {"days: [tue]", "days: [wed]", newSpec, ""},
	"Promotion.ChangeFrom":    {`from: "10:00"`, `from: "09:00"`, newSpec, ""},
	"Promotion.ChangeTo":      {`to: "11:00"`, `to: "12:00"`, newSpec, ""},
	"Promotion.ChangeZone":    {"zone: Europe/Berlin", "zone: Africa/Lagos", newSpec, ""},
	"Promotion.first":         {"      first: key[0] == \"a\"\n", "", newSpec, ""},
	"Promotion.Protect":       {"protect: [c]", "protect: [d]", newSpec, ""},
	"Promotion.expected": {"owner: team }", "owner: another }", noEffect,
		"instances declare a difference when they record it; the gate sees only the counts"},
}

// A field that is added to a policy, a side or a promotion reaches the Spec, or a row says why not.
func TestEveryFieldOfAPolicyFileReachesTheSpec(t *testing.T) {
	fields := map[string]bool{}
	for _, of := range []reflect.Type{
		reflect.TypeFor[policies.Policy](), reflect.TypeFor[policies.Side](), reflect.TypeFor[policies.Promotion](),
	} {
		for i := range of.NumField() {
			name := of.Name() + "." + of.Field(i).Name
			if name == "Policy.together" {
				continue // fullFile has one policy, and a list has two; each keeps its evidence
			}
			fields[name] = true
			if specChanges[name].from == "" {
				t.Errorf("policies.%s has no row in specChanges: write a change of fullFile that sets it, and what the change does to "+
					"the Spec; without a row, no test notices a field that specOf, declared or rulesOf has forgotten", name)
			}
		}
	}

	before := specIn(t, fullFile)
	for name, change := range specChanges {
		if !fields[name] {
			t.Errorf("specChanges has a row for %s, which package policies does not have any more: remove it", name)
		}
		if n := strings.Count(fullFile, change.from); n != 1 {
			t.Errorf("%s: fullFile has %q %d times, want once: the change would be of another field; a new field of a "+
				"policy stands below its candidate", name, change.from, n)
			continue
		}

		after := specIn(t, strings.Replace(fullFile, change.from, change.to, 1))
		got := noEffect
		switch {
		case after.Fingerprint != before.Fingerprint:
			got = newFingerprint
		case !reflect.DeepEqual(after, before):
			got = newSpec
		}

		if got != change.effect || (got == noEffect) != (change.reason != "") {
			t.Errorf("policies.%s: the change to %q makes %s, and its row says %s with the reason %q: carry the field in specOf, "+
				"declared or rulesOf (Side.identity or Policy.Fingerprint for a new fingerprint), or correct the row; "+
				"only a field that is not carried has a reason", name, change.to, got, change.effect, change.reason)
		}
	}
}

// specIn returns what instances announce of the one policy of a file.
func specIn(t *testing.T, file string) stages.Spec {
	t.Helper()
	set, err := policies.Load("full.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return specOf(set.Policies[0])
}

// The gate and the commands know no policy file, so the words have constants on both sides.
func TestStoreFailuresHaveTheWordsOfPolicyFiles(t *testing.T) {
	files := [3]string{policies.FailLocal, policies.FailAllow, policies.FailDeny}
	if announced := [3]string{stages.FailLocal, stages.FailAllow, stages.FailDeny}; announced != files {
		t.Errorf("announced as %v, but files write %v", announced, files)
	}
}

// notInOutage are the fields of a Spec that the page of a silent store does not show, with the reason.
var notInOutage = map[string]string{
	"Spec.First": "the file pins keys, and the enforced side is named for all of them",
	"Spec.Store": "the authoritative is described with its store",

	"Spec.Labels": "whose the policy is helps nobody to repair a store",

	"Spec.CandidateStore": "the candidate is described with its store",
	"Spec.AsksStore":      "the instance knows its own stores",

	"Spec.Followed":   "no side is enforced by the instance, whose program is another one",
	"Spec.FirstLimit": "the authoritative is described as none",

	"Spec.Apart":  "the gate judges nothing while the store is silent",
	"Spec.Window": "the gate judges nothing while the store is silent",
	"Spec.Copied": "the gate judges nothing while the store is silent",

	"Spec.AuthoritativeRule": "the level that holds on this instance is shown, whatever was published",
	"Spec.CandidateRule":     "the level that holds on this instance is shown, whatever was published",

	"Config.Automatic": "no move is stored while the store is silent, as the page says",
	"Config.Config":    "the gate judges nothing while the store is silent",
	"Config.Dwell":     "no move is stored while the store is silent, as the page says",
	"Config.Canary":    "no move is stored while the store is silent, as the page says",
	"Config.Change":    "no move is stored while the store is silent, as the page says",
}

// A field that is added to what instances announce is on the page of an outage, too, when operators look for it most.
func TestEveryFieldOfASpecIsShownInAnOutage(t *testing.T) {
	spec := specIn(t, fullFile)
	spec.FirstLimit = true
	spec.PerProcess[0] = algorithms.Limit{Requests: 2, Window: time.Hour}
	state := stages.State{Fingerprint: spec.Fingerprint, Stage: stages.Promoted}
	enforcement := func(s stages.Spec) status.Enforcement {
		compared := [2]engine.Side{1: engine.CustomSide(AllowFunc(func(string) bool { return true }))}
		p := engine.NewPolicy(s, compared, engine.PolicyOptions{Log: slog.New(slog.DiscardHandler)})
		return enforcement(p, state, circumstances{live: 3})
	}

	for _, structOf := range []func(*stages.Spec) reflect.Value{
		func(s *stages.Spec) reflect.Value { return reflect.ValueOf(s).Elem() },
		func(s *stages.Spec) reflect.Value { return reflect.ValueOf(&s.Config).Elem() },
	} {
		of := structOf(&spec).Type()
		for i := range of.NumField() {
			name, without := of.Name()+"."+of.Field(i).Name, spec
			structOf(&without).Field(i).SetZero()
			if name == "Spec.Config" {
				continue // its fields come one by one
			}

			_, excepted := notInOutage[name]
			if shown := enforcement(without) != enforcement(spec); shown == excepted {
				t.Errorf("%s is shown in an outage: %t, and notInOutage has a reason why not: %t: set a field of status.Enforcement from "+
					"it (migration.enforcement) and show that on page.html, or write the reason; fullFile needs a value", name, shown, excepted)
			}
		}
	}
}
