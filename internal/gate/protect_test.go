package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// protecting protects the key acme.
var protecting = gate.Config{Protect: []string{"acme"}}.WithDefaults()

// acme are the counts of the protected key, in shadow and enforced, beside those of a key that is not protected any more and loses all.
func acme(shadow, enforced evidence.KeyTally) evidence.ProtectedKeys {
	lost := allowed(1000, 1000)
	return evidence.ProtectedKeys{
		{Key: "acme", Counts: [2]evidence.KeyTally{shadow, enforced}}, {Key: "other", Counts: [2]evidence.KeyTally{lost, lost}},
	}
}

// tally counts requests of which the authoritative allowed some; of these lost, and of the others gained, by the candidate.
func tally(requests, allowed, lost, gained int64) evidence.KeyTally {
	return evidence.KeyTally{
		evidence.AgreeAllow: allowed - lost, evidence.AgreeDeny: requests - allowed - gained,
		evidence.NewlyDenied: lost, evidence.NewlyAllowed: gained,
	}
}

func allowed(n, lost int64) evidence.KeyTally { return tally(n, n, lost, 0) }

var none evidence.KeyTally

// withProtected returns evidence that passes but for its protected keys, with these in its last hour.
func withProtected(keys evidence.ProtectedKeys) gate.Evidence {
	e := hoursOf{hours: 60}.build()
	hour := e.Now.Unix() / evidence.SecondsPerHour
	e.History.Hours = []evidence.Hour{{Unix: hour - 1, Protected: keys}}
	return e
}

// protectedOf returns the condition of protected keys.
func protectedOf(t *testing.T, cfg gate.Config, e gate.Evidence) gate.Condition {
	t.Helper()
	return conditionOf(t, gate.Assess(cfg, e), "protected keys")
}

// One protected key that loses 5 % of its own and 20 requests in an hour keeps steps back for as long as the step has to have seen, with its
// name in the sentence.
func TestProtectedKeyKeepsStepsBack(t *testing.T) {
	tests := map[string]struct {
		n   evidence.KeyTally
		met bool
	}{
		"all":       {allowed(30, 30), false},
		"the share": {allowed(400, 20), false},
		"less":      {allowed(401, 20), true},
		"few":       {allowed(19, 19), true},
	}
	for name, test := range tests {
		if c := protectedOf(t, protecting, withProtected(acme(test.n, none))); c.Met != test.met || c.Met == strings.Contains(c.Reason, "acme") {
			t.Errorf("%s: %+v", name, c)
		}
	}

	for back, met := range map[int64]bool{46: false, 47: false, 48: true} {
		e := withProtected(acme(allowed(30, 30), none))
		e.History.Hours[0].Unix -= back
		if c := protectedOf(t, protecting, e); c.Met != met {
			t.Errorf("%d h ago: %+v", back+1, c)
		}
		if g := gate.Assess(gate.Config{}.WithDefaults(), e); g.Verdict != gate.Pass {
			t.Errorf("not protected any more: %s: %s", g.Verdict, g.Reason)
		}
	}
}

// An hour that is not over may still become better.
func TestOpenHourKeepsNothingBack(t *testing.T) {
	e := withProtected(acme(allowed(30, 30), none))
	e.History.Hours[0].Unix++
	if c := protectedOf(t, protecting, e); !c.Met {
		t.Errorf("%+v", c)
	}
}

// Each row is what a protected key has lost to the enforced candidate in the last minutes, in this hour, and in the one before.
func TestProtectedKeyRollsBack(t *testing.T) {
	good, bad := allowed(1000, 0), allowed(30, 30)
	tests := []struct {
		lately, hour, before evidence.KeyTally
		want                 gate.Level
	}{
		{good, good, good, gate.Calm},
		{bad, good, good, gate.RollBack},
		{none, bad, none, gate.RollBack},
		{none, allowed(15, 15), allowed(15, 15), gate.RollBack}, // over the change of the hour
		{allowed(19, 19), allowed(19, 19), none, gate.Calm},
		{none, none, none, gate.Calm},
	}

	for i, test := range tests {
		e := withProtected(acme(none, test.before))
		now := evidence.Hour{Unix: e.History.Hours[0].Unix + 1, Protected: acme(none, test.hour)}
		e.History.Hours = append(e.History.Hours, now)
		e.Lately = acme(none, test.lately)
		e.Exposure = gate.Exposure{Since: e.Now.Add(-2 * time.Hour)}
		if got := gate.Assess(protecting, e).Harm; got.Level != test.want {
			t.Errorf("row %d: %+v, want %d", i, got, test.want)
		}

		// In shadow there is no alarm.
		e.Exposure = gate.Exposure{}
		if got := gate.Assess(protecting, e).Harm; got.Level != gate.Calm {
			t.Errorf("row %d, in shadow: %+v", i, got)
		}
	}
}

func TestProtectedKeysAreBounded(t *testing.T) {
	cfg := protecting
	cfg.Protect = make([]string, evidence.MostProtected)
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg.Protect = append(cfg.Protect, "one more")
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "protect: 33 keys") {
		t.Errorf("33 keys: %v", err)
	}
}

// Each row is a key beyond its limit: what became of its requests in the hour before, and in the hour. Two sides of one rate deny it
// different requests, and as many.
func TestShapesAreNoHarm(t *testing.T) {
	crawling := tally(7200, 3600, 1800, 1800)
	tests := map[string]struct {
		before, hour evidence.KeyTally
		kept, alarm  bool
	}{
		"as many are gained":                 {none, tally(200, 100, 50, 50), false, false},
		"more are gained":                    {none, tally(200, 100, 20, 80), false, false},
		"none are gained":                    {none, tally(200, 100, 50, 0), true, true},
		"the end of a long time":             {crawling, tally(120, 60, 30, 0), false, false},
		"the end of a time without losses":   {tally(7200, 3600, 0, 0), tally(120, 60, 30, 0), true, false},
		"more than a shape can make":         {crawling, tally(1200, 600, 600, 0), true, true},
		"more than the authoritative denies": {tally(1010, 1000, 20, 10), tally(300, 300, 40, 0), true, true},
		"within its limit":                   {allowed(1000, 0), allowed(100, 30), true, true},
	}

	for name, test := range tests {
		// In shadow the hour keeps steps back.
		e := withProtected(acme(test.hour, none))
		first := evidence.Hour{Unix: e.History.Hours[0].Unix - 1, Protected: acme(test.before, none)}
		e.History.Hours = append([]evidence.Hour{first}, e.History.Hours...)
		if kept, _ := gate.ProtectedHarmOf(protecting, &e); kept != test.kept {
			t.Errorf("%s: kept back: %t, want %t", name, kept, test.kept)
		}

		// An enforced candidate that does the same is rolled back.
		e.History.Hours[0].Protected, e.History.Hours[1].Protected = acme(none, test.before), acme(none, test.hour)
		e.Exposure = gate.Exposure{Since: e.Now.Add(-2 * time.Hour)}
		e.Now = e.Now.Add(-time.Minute)
		if _, alarm := gate.ProtectedHarmOf(protecting, &e); alarm != test.alarm {
			t.Errorf("%s: an alarm: %t, want %t", name, alarm, test.alarm)
		}
	}
}
