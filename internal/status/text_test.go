package status_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

var now = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// assessed returns a policy that has been in a stage for three days, in which all is well except for the edits.
func assessed(stage promotion.Stage, edit func(*promotion.Assessment)) promotion.Assessment {
	version := promotion.Version{Term: 1, Seq: 2}
	began := now.Add(-72 * time.Hour)
	a := promotion.Assessment{
		Spec: promotion.Spec{
			Policy: "writes", Epoch: "e", Config: promotion.Config{}.WithDefaults(), Authoritative: "old", Candidate: "new",
		},
		State: promotion.State{
			Version: version, Stage: stage, Epoch: "e", Since: began, StageAt: began, Actor: "ann", Reason: "because",
		},
		Evidence: gate.Evidence{Since: began, Now: now, Live: 1},
		Gate:     gate.Result{Verdict: gate.Pass, Reason: "all is well"},
		Live: []promotion.Instance{{
			ID: "i", At: now, Policies: map[string]promotion.Applied{"writes": {Version: version, Epoch: "e"}},
		}},
	}

	if edit != nil {
		edit(&a)
	}
	return a
}

// differing adds a request that the candidate would newly deny.
func differing(a *promotion.Assessment) {
	var minute divergence.Minute
	minute.Tally[divergence.AgreeAllow], minute.Tally[divergence.NewlyDenied] = 1, 1
	a.Evidence.History.Minutes = []divergence.Minute{minute}
}

// runbooks is where the report leads a reader to.
const runbooks = "https://github.com/shadowlimit/shadowlimit/blob/main/docs/runbooks/"

// ofRatio is the obstacle of a ratio, which is the first word of its text.
func ofRatio(kind gate.ObstacleKind, text string) gate.Obstacle {
	name, _, _ := strings.Cut(text, " ")
	return gate.Obstacle{Kind: kind, Text: text, Ratio: name}
}

// early is one from too few requests.
func early(text string) gate.Obstacle {
	o := ofRatio(gate.AboveThreshold, text)
	o.Early = true
	return o
}

// hinder sets obstacles, or pairs of a kind and a text, as the obstacles of a policy.
func hinder(a *promotion.Assessment, pairs ...any) {
	a.Gate.Verdict = gate.Insufficient
	for i := 0; i < len(pairs); i += 2 {
		if o, ok := pairs[i].(gate.Obstacle); ok {
			a.Gate.Obstacles = append(a.Gate.Obstacles, o)
			i--
			continue
		}
		a.Gate.Obstacles = append(a.Gate.Obstacles, gate.Obstacle{Kind: pairs[i].(gate.ObstacleKind), Text: pairs[i+1].(string)})
	}
}

func reportOf(t *testing.T, a promotion.Assessment) status.Policy {
	t.Helper()
	r, err := status.Of(t.Context(), "shop", divergence.NewMemoryLedger(), []promotion.Assessment{a})
	if err != nil {
		t.Fatal(err)
	}
	return r.Policies[0]
}

// The command of an alarm is made to be pasted. Its reason may have several parts, and name a client's key.
func TestCommandsOfAlarmsCanBePasted(t *testing.T) {
	a := assessed(promotion.Promoted, nil)
	a.Alarm = gate.Alarm{Level: gate.RollBack, Reason: "protected key $(reboot)'s `x` lost 5 %; 20 clients harmed"}
	var b strings.Builder
	r := status.Report{Policies: []status.Policy{reportOf(t, a)}}
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}

	const want = "\n  next           shadowlimit rollback writes --reason 'protected key $(reboot)'\\''s `x` lost 5 %; 20 clients harmed'\n"
	if !strings.Contains(b.String(), want) {
		t.Errorf("%s\nwant %s", b.String(), want)
	}
}

// away takes the authoritative's store from the instance.
func away(a *promotion.Assessment, rule string) {
	a.Spec.Store, a.Spec.OnStoreFailure = "east", rule
	a.Live[0].Failing = []string{"east", "west"}
}

// An operator who is about to roll back must see what on_store_failure would make of that.
func TestStoreAwayIsShown(t *testing.T) {
	for rule, want := range map[string]string{
		promotion.FailDeny: "\n  STORE AWAY: the store east of the authoritative does not answer on 1 of 1 live instances, and " +
			"on_store_failure is deny: do not roll back and press no button",
		promotion.FailAllow: "\n  STORE AWAY: the store east of the authoritative does not answer on 1 of 1 live instances, and " +
			"on_store_failure is allow: after a rollback no request there is limited",
		promotion.FailLocal: "each instance there applies its share of the authoritative's limit\n",
		"":                  "each instance there applies its share of the authoritative's limit\n",
	} {
		// A stage that could not be read may be one that a rollback would end.
		unread := assessed("", func(a *promotion.Assessment) { away(a, rule) })
		if got := status.StoreAway(&unread); !strings.Contains("\n  STORE AWAY: "+got+"\n", want) {
			t.Errorf("%q, no stage: %s", rule, got)
		}

		a := assessed(promotion.Promoted, func(a *promotion.Assessment) { away(a, rule) })
		var b strings.Builder
		r := status.Report{Policies: []status.Policy{reportOf(t, a)}}
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q: %s\nwant %s", rule, b.String(), want)
		}
	}

	// After a rollback there is nothing to warn of: the outage is there. It is there, too, while a candidate in the same store
	// is enforced.
	for rule, want := range map[string]string{
		promotion.FailDeny:  "every request there is denied now; repair that store\n",
		promotion.FailAllow: "no request there is limited now; repair that store\n",
		promotion.FailLocal: "live instances; each instance there applies its share of the limit now\n",
	} {
		rolledBack := assessed(promotion.RolledBack, func(a *promotion.Assessment) { away(a, rule) })
		beside := assessed(promotion.Promoted, func(a *promotion.Assessment) {
			away(a, rule)
			a.Spec.CandidateStore = "east"
		})
		completed := assessed(promotion.Completed, func(a *promotion.Assessment) {
			away(a, rule)
			a.Spec.Store, a.Spec.CandidateStore = "north", "west"
		})
		for _, a := range []promotion.Assessment{rolledBack, beside, completed} {
			if p := reportOf(t, a); !strings.HasSuffix(p.StoreAway+"\n", want) {
				t.Errorf("%q, %s: %s, want %s", rule, p.Stage, p.StoreAway, want)
			}
		}
	}

	// A completed policy does not ask its authoritative.
	completed := assessed(promotion.Completed, func(a *promotion.Assessment) { away(a, promotion.FailDeny) })
	if p := reportOf(t, completed); !strings.Contains(p.StoreAway, "do not roll back") {
		t.Errorf("completed: %s", p.StoreAway)
	}

	// A candidate's store does not matter to a rollback.
	a := assessed(promotion.Promoted, func(a *promotion.Assessment) { a.Live[0].Failing = []string{"west"} })
	if p := reportOf(t, a); p.StoreAway != "" {
		t.Errorf("the authoritative's store answers, but the report says %q", p.StoreAway)
	}
}

// What an instance says in an outage holds for the side that decides there, and for the side that stands in for it.
func TestStoreAwayHere(t *testing.T) {
	type sides = [2]status.Answering // authoritative, candidate
	const ok, silent, refusing, lapsing = status.Answers, status.Silent, status.Refusing, status.Lapsing
	shadow, exposed, completed := [2]bool{true, false}, [2]bool{true, true}, [2]bool{false, true}
	const repair = "; repair that store; next: shadowlimit doctor"

	tests := []struct {
		decides     [2]bool
		sides       sides
		rule, alone string
		want        string
	}{
		{shadow, sides{}, promotion.FailDeny, "", ""},
		{shadow, sides{ok, silent}, promotion.FailDeny, "", ""},
		{shadow, sides{silent, ok}, promotion.FailDeny, "", "the authoritative does not answer this instance (A), and on_store_failure " +
			"is deny: every request is denied now" + repair},
		{shadow, sides{refusing, refusing}, promotion.FailDeny, "", "the store of the authoritative refuses the writes of this instance (A), " +
			"and on_store_failure is deny: every request is denied now" + repair},
		{shadow, sides{lapsing, lapsing}, promotion.FailDeny, "", "the authoritative has not answered some requests of this instance within " +
			"the last 15s (A), and on_store_failure is deny: each of them was denied" + repair},
		{shadow, sides{silent, silent}, promotion.FailLocal, "", "the authoritative does not answer this instance (A); this instance " +
			"applies its share of the limit" + repair},
		{shadow, sides{silent, silent}, promotion.FailLocal, "started without Redis", "the authoritative does not answer this instance " +
			"(A); this instance started without Redis and applies the whole limit: n such instances allow n times the limit" + repair},
		{exposed, sides{}, promotion.FailDeny, "", ""},
		{exposed, sides{silent, silent}, promotion.FailDeny, "", "neither side answers this instance (A), and on_store_failure is deny: " +
			"every request is denied now" + repair},
		{exposed, sides{lapsing, lapsing}, promotion.FailAllow, "", "neither side has answered some requests of this instance within the " +
			"last 15s (A), and on_store_failure is allow: each of them was allowed" + repair},
		{exposed, sides{ok, silent}, promotion.FailDeny, "", "the candidate does not answer this instance (B): the authoritative decides " +
			"in its place"},
		{exposed, sides{silent, ok}, promotion.FailAllow, "", "the authoritative does not answer this instance (A), and on_store_failure " +
			"is allow: after a rollback no request there is limited; repair that store first, unless no limit is better than the candidate"},
		{completed, sides{silent, ok}, promotion.FailDeny, "", ""},
		{completed, sides{silent, silent}, promotion.FailAllow, "", "the candidate does not answer this instance (B), and " +
			"on_store_failure is allow: no request is limited now" + repair},
	}
	for _, tt := range tests {
		o := status.Outlook{
			Decides: tt.decides, Sides: tt.sides, Reasons: [2]string{"A", "B"}, OnStoreFailure: tt.rule, Alone: tt.alone,
		}
		if got := o.StoreAway(); got != tt.want {
			t.Errorf("%v decide, %v answer, %s:\n%s, want\n%s", tt.decides, tt.sides, tt.rule, got, tt.want)
		}
	}
}

func TestNextStep(t *testing.T) {
	tests := []struct {
		name  string
		stage promotion.Stage
		edit  func(*promotion.Assessment)
		want  string
	}{
		{"passed", promotion.Shadow, nil, "shadowlimit promote writes --reason WHY"},
		{"passed, automatic, in the change window", promotion.Shadow, func(a *promotion.Assessment) {
			a.Spec.Config.Automatic = true
		}, "none: a controller takes the next step within a minute, because the change window is open"},
		{"passed, automatic, before the change window", promotion.Shadow, func(a *promotion.Assessment) {
			a.Spec.Config.Automatic, a.Spec.Config.Change.Days = true, []time.Weekday{time.Monday}
			a.Spec.Config.Change.Zone = "America/New_York"
		}, "none: a controller takes the next step when the change window opens at Mon 2026-03-16 13:00 UTC"},
		{"passed, automatic, in a zone that this machine does not know", promotion.Shadow, func(a *promotion.Assessment) {
			a.Spec.Config.Automatic, a.Spec.Config.Change.Zone = true, "Mars"
		}, "none: a controller takes the next step within the change window, which does not open within two weeks: " +
			`check its days, its times, and its zone "Mars" on this machine`},
		{"evidence that cannot be read", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.Unreadable, promotion.EvidenceUnreadable+": no answer")
		}, "check whether the Redis of the evidence answers"},
		{"no instance has had it for a month", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.NoInstance, "no instance has had this policy for 32 days")
			a.Live, a.Silent = nil, nil
		}, "no instance is live: start the service or check its Redis; if no policy file has it any more: shadowlimit forget writes"},
		{"no instance knows the thresholds", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.Thresholds, "its thresholds are unknown")
			a.State.Epoch = "e5f1"
		}, "finish the deployment, or start an instance of epoch e5f1, which is stored"},
		{"waiting", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, gate.LowScore, "3 blocks", gate.CleanTime, "1 h of 48 h clean")
			a.Gate.Verdict, a.Gate.NoForecast = gate.Wait, "traffic is rare"
		}, "wait (no forecast: traffic is rare): 3 blocks; and: 1 h of 48 h clean; to see which keys differ: shadowlimit top writes"},
		{"waiting in vain", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.FewDeniedKeys, "5 of the 20 keys needed")
			a.Gate.NoForecast, a.Gate.Never = "the policy has only 5 keys: set min_denied_keys", true
		}, "cannot pass: the policy has only 5 keys: set min_denied_keys; and: 5 of the 20 keys needed"},
		{"waiting in vain, for more than that", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.FewDenials, "100 of the 200 denials needed", gate.FewDeniedKeys, "5 of the 20 keys needed")
			a.Gate.NoForecast, a.Gate.Never = "the policy has only 5 keys", true
		}, "cannot pass: the policy has only 5 keys; and: 100 of the 200 denials needed; and: 5 of the 20 keys needed"},
		{"waiting, with a forecast and its condition", promotion.Shadow, func(a *promotion.Assessment) {
			at := now.Add(47 * time.Hour)
			hinder(a, gate.HoursUnseen, "1 of 24 hours of the day seen", gate.CleanTime, "1 h of 48 h clean")
			a.Gate.WouldPassAt, a.Gate.WouldPassWhen = &at, "48 h are clean"
		}, "wait (could pass Thu 2026-03-12 11:00 UTC at the earliest, when 48 h are clean): 1 of 24 hours of the day seen; " +
			"and: 1 h of 48 h clean"},
		{"an action, and what comes later", promotion.Shadow, func(a *promotion.Assessment) {
			at := now.Add(47 * time.Hour)
			hinder(a, gate.DeniesNothing, "of 1000", gate.CleanTime, "1 h of 48 h clean")
			a.Gate.NotBefore, a.Gate.NotBeforeFor = &at, "the clean time"
		}, "check that the candidate limits at all; then wait: 1 h of 48 h clean; " +
			"not before Thu 2026-03-12 11:00 UTC, because of the clean time"},
		{"nothing is allowed", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.AllowsNothing, "the authoritative has allowed no request: check its limit")
		}, "the authoritative has allowed no request: check its limit"},
		{"a ratio above its threshold", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, ofRatio(gate.AboveThreshold, "divergence is 8 %"), ofRatio(gate.AboveThreshold, "newly_denied is 8 %"),
				gate.CleanTime, "1 h clean")
			a.Gate.Verdict = gate.Wait
		}, "find out why the limiters differ, because waiting alone does not mend that: divergence is 8 % " +
			"(also newly_denied); if the difference is wanted, declare it as expected in the policy file " +
			"or raise the threshold; if not, change the candidate; then wait: 1 h clean; to see which keys differ: shadowlimit top writes"},
		{"ratios above their thresholds, the first from too little", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, early("divergence is 3 %: too early to tell"), ofRatio(gate.AboveThreshold, "newly_denied is 8 %"))
		}, "find out why the limiters differ, because waiting alone does not mend that: newly_denied is 8 % (also divergence); if"},
		{"a ratio above its threshold, from too little", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, early("divergence is 3 %: too early to tell"))
		}, "send more traffic, or wait until more requests were compared: divergence is 3 %: too early to tell; to see"},
		{"several obstacles, the first that needs an action first", promotion.Shadow, func(a *promotion.Assessment) {
			a.Evidence.NotWriting = []string{"j"}
			hinder(a, gate.FewDenials, "2 of 200", gate.DeniesNothing, "of 1000", gate.HoursUnseen, "3 hours", gate.NotWriting, "j",
				gate.LowScore, "score", gate.CleanTime, "1 h clean")
			a.Gate.Verdict = gate.Insufficient
		}, "read the log of these instances, which are heard of and write no evidence: j; " +
			"check that the candidate limits at all; then wait: 2 of 200; and: 3 hours; and: score; and: 1 h clean"},
		{"no instance is live", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.NothingCompared, "nothing", gate.NoInstance, "none is live")
		}, "no instance is live: start the service or check its Redis; nothing has been compared yet: send traffic"},
		{"no evidence from an instance", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			a.Evidence.NotWriting = []string{"j"}
			hinder(a, gate.NotWriting, "j")
		}, "read the log of these instances, which are heard of and write no evidence: j; to see"},
		{"no traffic", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.NothingCompared, "nothing")
		}, "nothing has been compared yet: send traffic that the policy matches; instances write what they saw every 5 to 15 s"},
		{"too little coverage", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, gate.LowCoverage, "90 %")
		}, "find out why too few requests could be compared: " + runbooks + "ShadowlimitCoverageLow.md"},
		{"the candidate denies nothing", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, gate.DeniesNothing, "of 1000")
		}, "check that the candidate limits at all; to see which keys differ"},
		{"the red button, passed", promotion.Shadow, func(a *promotion.Assessment) {
			a.Live[0].RedButton = true
			hinder(a, gate.RedButton, "the red button is pressed on i")
		}, "release the red button of i"},
		{"held for health", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold, a.State.HeldForHealth = true, true
		}, "the hold ends by itself when the candidate has been well for an hour; to end it now: shadowlimit resume writes"},
		{"the red button, no traffic", promotion.Shadow, func(a *promotion.Assessment) {
			a.Live[0].RedButton = true
			hinder(a, gate.NothingCompared, "nothing", gate.RedButton, "the red button is pressed on i")
		}, "nothing has been compared yet: send traffic that the policy matches; instances write what they saw every 5 to 15 s; " +
			"release the red button of i"},
		{"the red button, an alarm", promotion.Canary, func(a *promotion.Assessment) {
			a.Live[0].RedButton, a.Alarm = true, gate.Alarm{Level: gate.RollBack, Reason: "overload"}
		}, `shadowlimit rollback writes --reason 'overload'; release the red button of i`},
		{"failed", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			a.Gate.Verdict = gate.Fail
		}, "change the candidate; to see which keys differ: shadowlimit top writes"},
		{"failed in a canary", promotion.Canary, func(a *promotion.Assessment) {
			differing(a)
			a.Gate.Verdict = gate.Fail
		}, "shadowlimit rollback writes --reason WHY; to see which keys differ: shadowlimit top writes"},
		{"dwelling", promotion.Canary, func(a *promotion.Assessment) {
			a.State.StageAt = now
		}, "wait until Tue 2026-03-10 13:00 UTC: the canary at 0 % has to dwell until then"},
		{"dwelling, automatic, beyond the change window", promotion.Canary, func(a *promotion.Assessment) {
			a.Spec.Config.Automatic, a.State.StageAt, a.Spec.Config.Dwell = true, now, 4*time.Hour
		}, "wait until Tue 2026-03-10 16:00 UTC: the canary at 0 % has to dwell until then; after that, " +
			"a controller takes the next step when the change window opens at Wed 2026-03-11 09:00 UTC"},
		{"an alarm", promotion.Canary, func(a *promotion.Assessment) {
			a.Alarm = gate.Alarm{Level: gate.RollBack, Reason: "overload"}
		}, `shadowlimit rollback writes --reason 'overload'`},
		{"an alarm, the authoritative's store away, and deny", promotion.Canary, func(a *promotion.Assessment) {
			away(a, promotion.FailDeny)
			a.Alarm = gate.Alarm{Level: gate.RollBack, Reason: "overload"}
		}, "repair the store east of the authoritative: before that, a rollback would deny every request; then: " +
			`shadowlimit rollback writes --reason 'overload'`},
		{"an alarm, the authoritative's store away, and allow", promotion.Canary, func(a *promotion.Assessment) {
			away(a, promotion.FailAllow)
			a.Alarm = gate.Alarm{Level: gate.RollBack, Reason: "overload"}
		}, "repair the store east of the authoritative: before that, a rollback would limit no request; " +
			"then, or at once if no limit is better than the candidate: " +
			`shadowlimit rollback writes --reason 'overload'`},
		{"an alarm that only holds, the authoritative's store away, and deny", promotion.Canary, func(a *promotion.Assessment) {
			away(a, promotion.FailDeny)
			a.Alarm = gate.Alarm{Level: gate.Hold, Reason: "risen"}
		}, "to end the harm now: repair the store east of the authoritative: before that, a rollback would deny every request; then: " +
			"shadowlimit rollback writes --reason 'risen'; " +
			"to keep it enforced and only stop further steps: shadowlimit pause writes --reason 'risen'"},
		{"an alarm, the authoritative's store away, and local", promotion.Canary, func(a *promotion.Assessment) {
			away(a, promotion.FailLocal)
			a.Alarm = gate.Alarm{Level: gate.RollBack, Reason: "overload"}
		}, `shadowlimit rollback writes --reason 'overload'`},
		{"an alarm during a deployment", promotion.Canary, func(a *promotion.Assessment) {
			a.Alarm, a.Evidence.OtherEpoch = gate.Alarm{Level: gate.RollBack, Reason: "overload"}, []string{"j"}
		}, `shadowlimit rollback writes --reason 'overload'`},
		{"an alarm that only holds", promotion.Canary, func(a *promotion.Assessment) {
			a.Alarm = gate.Alarm{Level: gate.Hold, Reason: "risen"}
		}, "to end the harm now: shadowlimit rollback writes --reason 'risen'; " +
			"to keep it enforced and only stop further steps: shadowlimit pause writes --reason 'risen'"},
		{"an alarm that only holds, on hold", promotion.Canary, func(a *promotion.Assessment) {
			a.Alarm, a.State.Hold, a.State.Percent = gate.Alarm{Level: gate.Hold, Reason: "risen"}, true, 50
		}, "the hold does not stop the candidate: 50 % of the keys still have it; " +
			"to end the harm now: shadowlimit rollback writes --reason 'risen'; " +
			"when the reason for the hold is resolved: shadowlimit resume writes"},
		{"an alarm that only holds, on hold, promoted", promotion.Promoted, func(a *promotion.Assessment) {
			a.Alarm, a.State.Hold, a.State.Percent = gate.Alarm{Level: gate.Hold, Reason: "risen"}, true, 100
		}, "the hold does not stop the candidate: all keys still have it; to end the harm now: shadowlimit rollback writes"},
		{"an alarm of the candidate's health", promotion.Canary, func(a *promotion.Assessment) {
			a.Alarm = gate.Alarm{Level: gate.Hold, Reason: "the candidate fails", Health: true}
		}, "to end the harm now: shadowlimit rollback writes --reason 'the candidate fails'; " +
			"to keep it enforced and only stop further steps: shadowlimit pause writes --reason 'the candidate fails'"},
		{"an alarm of the candidate's health, on hold for that", promotion.Canary, func(a *promotion.Assessment) {
			a.Alarm = gate.Alarm{Level: gate.Hold, Reason: "the candidate fails", Health: true}
			a.State.Hold, a.State.HeldForHealth, a.State.Percent = true, true, 50
		}, "the hold does not stop the candidate: 50 % of the keys still have it; " +
			"to end the harm now: shadowlimit rollback writes --reason 'the candidate fails'; " +
			"the hold ends by itself when the candidate has been well for an hour; to end it now: shadowlimit resume writes"},
		{"a deployment", promotion.Canary, func(a *promotion.Assessment) {
			a.Evidence.OtherEpoch = []string{"j"}
		}, "undo the deployment: put the fleet's policy file back (if it is finished instead, the policy begins in shadow): " +
			"another epoch runs on j"},
		{"a deployment in shadow", promotion.Shadow, func(a *promotion.Assessment) {
			a.Evidence.OtherEpoch = []string{"j"}
		}, "finish the deployment or undo it: another epoch runs on j"},
		{"a deployment that is ahead", promotion.Promoted, func(a *promotion.Assessment) {
			a.Evidence.OtherEpoch = []string{"j"}
			a.Votes = promotion.Votes{Ahead: "e2", Since: now.Add(-10 * time.Second)}
		}, "wait until Tue 2026-03-10 12:00 UTC: most instances compare epoch e2, which takes over then"},
		{"a deployment that has just taken over", promotion.Promoted, func(a *promotion.Assessment) {
			a.Evidence.OtherEpoch, a.State.Epoch, a.Spec.Epoch = []string{"j"}, "e2", "e2"
			a.Votes = promotion.Votes{Ahead: "e2", Since: now.Add(-31 * time.Second)}
		}, "epoch e2, which most instances compare, has taken over: finish the deployment, or, to get the former stage back, " +
			"deploy the former file again within an hour; another epoch runs on j"},
		{"a deployment that is due", promotion.Promoted, func(a *promotion.Assessment) {
			a.Evidence.OtherEpoch = []string{"j"}
			a.Votes = promotion.Votes{Ahead: "e2", Since: now.Add(-31 * time.Second)}
		}, "look again in 15 s: most instances compare epoch e2, which was to take over at Tue 2026-03-10 11:59 UTC"},
		{"a deployment of a smaller generation", promotion.Promoted, func(a *promotion.Assessment) {
			a.Evidence.OtherEpoch, a.State.Generation = []string{"j"}, 7
			a.Votes = promotion.Votes{Ahead: "e2", Older: true}
		}, "if the deployment was undone: shadowlimit adopt writes --reason WHY; if not, deploy the file of generation 7 again: " +
			"another epoch runs on j, of a smaller one, and most instances have it"},
		{"on hold", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold = true
		}, "when the reason for the hold is resolved: shadowlimit resume writes"},
		{"on hold, without a pass", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold = true
			hinder(a, gate.CleanTime, "1 h clean")
		}, "when the reason for the hold is resolved: shadowlimit resume writes; besides: wait: 1 h clean"},
		{"on hold, during a deployment without a pass", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold, a.Evidence.OtherEpoch = true, []string{"j"}
			hinder(a, gate.DeniesNothing, "of 1000", gate.OtherEpochs, "j")
		}, "undo the deployment: put the fleet's policy file back (if it is finished instead, the policy begins in shadow): " +
			"another epoch runs on j; when the reason for the hold is resolved: " +
			"shadowlimit resume writes; besides: check that the candidate limits at all"},
		{"rolled back", promotion.RolledBack, func(a *promotion.Assessment) {
			a.State.Hold, a.State.Ended = true, []promotion.Ended{{Epoch: "e", As: promotion.RolledBack}}
		}, "change a side and deploy the change, then: shadowlimit resume writes; " +
			"if the candidate was not at fault: shadowlimit resume writes --force --reason WHY"},
		{"promoted", promotion.Promoted, nil,
			"nothing until Sat 2026-03-14 12:00 UTC: before completed, a rollback gives no client a fresh budget; " +
				"then: shadowlimit complete writes --reason WHY; " +
				"to go back: shadowlimit rollback writes --reason WHY"},
		{"promoted a week ago", promotion.Promoted, func(a *promotion.Assessment) {
			a.State.StageAt = now.Add(-promotion.RollbackWindow)
		}, "shadowlimit complete writes --reason WHY; to go back: shadowlimit rollback writes --reason WHY"},
		{"completed", promotion.Completed, nil, "make the candidate the authoritative"},
	}

	for _, tt := range tests {
		if got := reportOf(t, assessed(tt.stage, tt.edit)).NextStep; !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Every obstacle ends by waiting or by an action that the next step names.
func TestEveryObstacleHasAWayOut(t *testing.T) {
	for kind := range gate.ObstacleKind(gate.ObstacleKinds) {
		a := assessed(promotion.Shadow, func(a *promotion.Assessment) { hinder(a, kind, "the obstacle") })
		waits := a.Gate.Obstacles[0].Waits()
		got := reportOf(t, a).NextStep
		if waits != strings.HasPrefix(got, "wait: the obstacle") || got == "" {
			t.Errorf("obstacle %d, which waits: %v: %q", kind, waits, got)
		}
	}
}

// Programs and people see all obstacles, and people the page that explains them.
func TestObstaclesAreNamed(t *testing.T) {
	p := reportOf(t, assessed(promotion.Shadow, func(a *promotion.Assessment) {
		hinder(a, gate.Obstacle{Kind: gate.FewDenials, Text: "2 of 200", Have: 2, Need: 200, NoForecast: "no rate", Never: true},
			gate.DeniesNothing, "none")
	}))
	have, need := 2.0, 200.0
	want := []status.Obstacle{
		{Kind: "few_denials", Text: "2 of 200", Have: &have, Need: &need, NoForecast: "no rate", Never: true,
			Words: "2 of 200, and waiting alone does not end that: no rate"},
		{Kind: "denies_nothing", Text: "none", Words: "none"},
	}
	if !reflect.DeepEqual(p.Obstacles, want) {
		t.Errorf("%+v, want %+v", p.Obstacles, want)
	}
	if p := reportOf(t, assessed(promotion.Shadow, nil)); p.Obstacles == nil || len(p.Obstacles) != 0 {
		t.Errorf("after a pass %#v, want an empty list", p.Obstacles)
	}

	for verdict, want := range map[string]string{
		gate.Wait: "glossary.md#wait\n", gate.Insufficient: "glossary.md#insufficient-evidence\n", gate.Fail: "glossary.md#fail\n", gate.Pass: "",
	} {
		p.Gate.Verdict = verdict
		var b strings.Builder
		if err := (&status.Report{Policies: []status.Policy{p}}).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "what this verdict means"); got != (want != "") || !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", verdict, want, b.String())
		}
	}
}

// Ratios have one remedy, also where one is above its threshold, one was so lately, and one may be.
func TestRatiosHaveOneRemedy(t *testing.T) {
	a := assessed(promotion.Shadow, func(a *promotion.Assessment) {
		hinder(a, early("extra_load is 12 %"), ofRatio(gate.AboveLately, "newly_denied is 8 %"), ofRatio(gate.Suspect, "divergence is 1.9 %"))
	})
	want := "find out why the limiters differ; one incident leaves the last 24 h by itself: newly_denied is 8 % " +
		"(also extra_load, divergence); if the difference is wanted, declare it as expected in the policy file " +
		"or raise the threshold; if not, change the candidate"
	if got := reportOf(t, a).NextStep; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A reader must see that no instance judges: the alert on it sends operators here.
func TestTextSaysWhereItWasJudged(t *testing.T) {
	tests := []struct{ name, judge, want string }{
		{"by an instance", "instance-j", "\n  judged 12s before this report by instance-j\n"},
		{"by the command itself", "", "\n  judged by this command: no instance has published a judgement of this evidence within a minute\n"},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := reportOf(t, assessed(promotion.Shadow, func(a *promotion.Assessment) {
				a.Judge, a.LookedAt = tt.judge, now.Add(12*time.Second)
			}))

			var b strings.Builder
			if err := (&status.Report{Name: "shop", Policies: []status.Policy{p}}).WriteText(&b); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(b.String(), "judged"); n != 1 || !strings.Contains(b.String(), tt.want) {
				t.Errorf("no single %q in\n%s", tt.want, b.String())
			}
		})
	}
}

func TestTextFitsAScreen(t *testing.T) {
	a := assessed(promotion.Canary, func(a *promotion.Assessment) {
		a.Alarm.Reason = "overload"
		for n := range 40 {
			i := a.Live[0]
			i.ID, i.RedButton = fmt.Sprint("instance-", n), n == 7
			a.Live = append(a.Live, i)
		}
		a.Silent = []promotion.Instance{{ID: "gone", At: now.Add(-time.Minute), Policies: a.Live[0].Policies}}

		differing(a)
		a.Evidence.History.Minutes[0].Tally[divergence.Inconclusive] = 2
		a.Evidence.History.Minutes[0].Tally[divergence.Blind] = 12

		var hour divergence.Hour
		hour.Causes.Denied[divergence.BurstShape] = 3
		hour.Causes.Denied[divergence.ColdState] = 1
		hour.Skipped[algorithms.BreakerOpen], hour.Skipped[algorithms.QueueFull] = 3, 1
		a.Evidence.History.Hours = []divergence.Hour{hour}
	})

	r := status.Report{Name: "shop", Policies: []status.Policy{reportOf(t, a)}}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{
		"ALARM: overload", "by ann: because", "newly denied, probable causes: burst_shape 75 %, cold_state 25 %",
		"not compared: 2 of 4 requests (50 %): breaker_open 75 %, queue_full 25 %; a store or the candidate failed again and again, so see",
		"blind: 12 of 16 requests (75 %): the sides had different charges",
		"instances: 40 of 41 live and at 1.2; besides, red button pressed: 1",
		"instance-7", "red button pressed", "gone", "silent: it has stopped",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "\n"); n > 40 || strings.Contains(b.String(), "instance-8") {
		t.Errorf("%d lines, want a screen of 40 with the instances that have a note:\n%s", n, b.String())
	}
}

func TestCharts(t *testing.T) {
	share := func(v float64) *float64 { return &v }
	p := status.Policy{Name: "writes"}
	p.Gate.NewlyDenied.Threshold = 0.02
	for _, v := range []*float64{nil, share(0), share(0.0001), share(0.01), share(0.0199), share(0.02), share(1)} {
		point := gate.Point{}
		point.Ratios[divergence.OfAllows] = v
		p.Series = append(p.Series, point)
	}

	var b strings.Builder
	if err := p.WriteCharts(&b); err != nil {
		t.Fatal(err)
	}
	if want := "newly_denied  . ▁▅█!!\n"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

// An operator sees which keys do not come with the canary's percentage, until all keys have the candidate.
func TestPlacedKeysAreShown(t *testing.T) {
	edit := func(a *promotion.Assessment) {
		a.State.Percent = 100
		a.Spec.First = true
	}
	lines := []string{
		"\n  placed         keys of first are in the canary from its first step\n",
	}

	for stage, want := range map[promotion.Stage]bool{promotion.Promoted: true, promotion.Completed: false} {
		p := reportOf(t, assessed(stage, edit))
		var text strings.Builder
		report := status.Report{Policies: []status.Policy{p}}
		if err := report.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if strings.Contains(text.String(), line) != want {
				t.Errorf("%s: shows %q: %t, want %t, in\n%s", stage, line, !want, want, text.String())
			}
		}
	}

	plain := reportOf(t, assessed(promotion.Promoted, func(a *promotion.Assessment) { a.State.Percent = 100 }))
	if plain.Placing() != "" || plain.Enforced != "candidate" {
		t.Errorf("without places: %q, enforced %q", plain.Placing(), plain.Enforced)
	}
}

// Right after a resume the lists of the day have keys of the evidence before it, of which no share can be told.
func TestKeysOfOldEvidenceHaveNoShare(t *testing.T) {
	top := []divergence.KeyCount{{Key: "10.0.0.7", Count: 95}}
	for newlyDenied, want := range map[int64]string{0: "", 1: "  newly denied most: 10.0.0.7 95 (100 %)\n"} {
		p := reportOf(t, assessed(promotion.Shadow, nil))
		p.NewlyDenied, p.TopNewlyDenied = newlyDenied, top

		var b strings.Builder
		if err := (&status.Report{Policies: []status.Policy{p}}).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "10.0.0.7") != (want != "") || !strings.Contains(b.String(), want) {
			t.Errorf("%d newly denied: want %q in\n%s", newlyDenied, want, b.String())
		}
		page := get(status.Page(always(p)), "/status", "").Body.String()
		if strings.Contains(page, "10.0.0.7") != (want != "") || strings.Contains(page, "9.5e+03 %") {
			t.Errorf("%d newly denied: the page has a key of old evidence, or a share of over 100 %%", newlyDenied)
		}
	}
}
