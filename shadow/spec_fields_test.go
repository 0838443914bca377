package shadow

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// fullFile has every field of a promotion, each with a value that is not the default.
const fullFile = `
version: 1
name: test
policies:
  - name: full
    key: request.user
    authoritative: { algorithm: gcra, limit: 2, window: 1h }
    candidate: { algorithm: token_bucket, limit: 2, window: 1h, burst: 2 }
    promotion:
      mode: automatic
      rule: simple
      divergence: 3%
      newly_denied: 4%
      newly_allowed: 40%
      block: 2h
      soak: 72h
      dwell: 3h
      min_denials: 300
      min_denied_keys: 30
      canary: [5%, 20%]
      sample: 25%
      change_window: { days: [tue], from: "10:00", to: "11:00", zone: Europe/Berlin }
      expected: [{ when: 'request.user == "x"', direction: newly_denied, until: 2999-01-01, owner: team }]
`

// measuredLater are the fields of a Spec that no policy file decides, with the reason.
var measuredLater = map[string]string{
	"Spec.Noise": "newMigration sets it, for the sides decide whether the noise floor can be measured; a sampled policy has none",
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
			t.Errorf("%s is zero: give fullFile a value for it; if it has one, set the field in draftOf, declared or rulesOf", name)
		case f.CanInterface() && reflect.DeepEqual(f.Interface(), defaults.Field(i).Interface()):
			t.Errorf("%s is the default, %v: give fullFile another value; if it has one, set the field in declared or rulesOf", name, f)
		}
	}
}

// A field that is added to a policy file reaches the gate and the stages by way of the announced Spec.
func TestEveryFieldOfAPromotionReachesTheSpec(t *testing.T) {
	set, err := policies.Load("full.yaml", []byte(fullFile))
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Policies: set, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())

	policy := set.Policies[0]
	d, err := h.draftOf(policy)
	if err != nil {
		t.Fatal(err)
	}

	// The first check holds that fullFile is full, the second that nothing is lost on the way.
	none := policies.Promotion{}
	checkFields(t, "Promotion", reflect.ValueOf(policy.Promotion), reflect.ValueOf(none))
	checkFields(t, "Spec", reflect.ValueOf(d.spec), reflect.ValueOf(promotion.Spec{Config: PromotionOf(none)}))
}
