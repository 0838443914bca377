package status_test

import (
	"fmt"
	"reflect"
	"regexp"
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
			Policy: "writes", Fingerprint: "e", Config: promotion.Config{}.WithDefaults(), Authoritative: "old", Candidate: "new",
		},
		State: promotion.State{
			Version: version, Stage: stage, Fingerprint: "e", Since: began, StageAt: began, Actor: "ann", Reason: "because",
		},
		Evidence: gate.Evidence{Since: began, Now: now, Live: 1},
		Gate:     gate.Result{Verdict: gate.Pass, Reason: "all is well"},
		Live: []promotion.Instance{{
			ID: "i", At: now, Policies: map[string]promotion.Applied{"writes": {Version: version, Fingerprint: "e"}},
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
	text := textOf(t, reportOf(t, a))

	const want = "\n  next           shadowlimit rollback writes --reason 'protected key $(reboot)'\\''s `x` lost 5 %; 20 clients harmed'\n"
	if !strings.Contains(text, want) {
		t.Errorf("%s\nwant %s", text, want)
	}
}

// away takes the authoritative's store from the instance.
func away(a *promotion.Assessment, rule string) {
	a.Spec.Store, a.Spec.OnStoreFailure = "east", rule
	a.Live[0].Failing = []string{"east", "west"}
}

// matches tells whether a text has the tokens of a pattern in their order; the pattern "" is of no text.
func matches(text, pattern string) bool {
	return (text == "") == (pattern == "") && regexp.MustCompile(pattern).MatchString(text)
}

func textOf(t *testing.T, p status.Policy) string {
	t.Helper()
	var b strings.Builder
	if err := (&status.Report{Name: "shop", Policies: []status.Policy{p}}).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// An operator who is about to roll back must see what on_store_failure would make of that.
func TestStoreAwayIsShown(t *testing.T) {
	for rule, want := range map[string]string{
		promotion.FailDeny:  `east.* 1 of 1 .*deny: do not roll back`,
		promotion.FailAllow: `east.* 1 of 1 .*allow:.* rollback no request`,
		promotion.FailLocal: `east.* 1 of 1 .* share .*authoritative`,
		"":                  `east.* 1 of 1 .* share .*authoritative`,
	} {
		// A stage that could not be read may be one that a rollback would end.
		unread := assessed("", func(a *promotion.Assessment) { away(a, rule) })
		if got := status.StoreAway(&unread); !matches(got, want) {
			t.Errorf("%q, no stage: %s", rule, got)
		}
		text := textOf(t, reportOf(t, assessed(promotion.Promoted, func(a *promotion.Assessment) { away(a, rule) })))
		if !matches(text, `\n  STORE AWAY: .*`+want) {
			t.Errorf("%q: %s\nwant %s", rule, text, want)
		}
	}

	// After a rollback there is nothing to warn of: the outage is there. It is there, too, while a candidate in the same store
	// is enforced.
	for rule, want := range map[string]string{
		promotion.FailDeny:  "request.* denied now; repair",
		promotion.FailAllow: "no request.* limited now; repair",
		promotion.FailLocal: "share of the limit now$",
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
			if p := reportOf(t, a); !matches(p.StoreAway, want) {
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
	const deny, allow, local = promotion.FailDeny, promotion.FailAllow, promotion.FailLocal
	shadow, exposed, completed := [2]bool{true, false}, [2]bool{true, true}, [2]bool{false, true}
	const repair = ".*repair.*shadowlimit doctor$"

	tests := []struct {
		decides     [2]bool
		sides       sides
		rule, alone string
		want        string
	}{
		{shadow, sides{}, deny, "", ""},
		{shadow, sides{ok, silent}, deny, "", ""},
		{shadow, sides{silent, ok}, deny, "", `authoritative.*\(A\).* deny: .*is denied now` + repair},
		{shadow, sides{refusing, refusing}, deny, "", `authoritative refuses.*\(A\).* deny: .*is denied now` + repair},
		{shadow, sides{lapsing, lapsing}, deny, "", `authoritative.* 15s \(A\).* deny: .*was denied` + repair},
		{shadow, sides{silent, silent}, local, "", `authoritative.*\(A\).* share of the limit` + repair},
		{shadow, sides{silent, silent}, local, "started alone", `\(A\).* started alone .* n times the limit` + repair},
		{exposed, sides{}, deny, "", ""},
		{exposed, sides{silent, silent}, deny, "", `neither side.*\(A\).* deny: .*is denied now` + repair},
		{exposed, sides{lapsing, lapsing}, allow, "", `neither side.* 15s \(A\).* allow: .*was allowed` + repair},
		{exposed, sides{ok, silent}, deny, "", `candidate.*\(B\).*authoritative`},
		{exposed, sides{silent, ok}, allow, "", `authoritative.*\(A\).* allow: .*rollback no request.*repair`},
		{completed, sides{silent, ok}, deny, "", ""},
		{completed, sides{silent, silent}, allow, "", `candidate.*\(B\).* allow: no request` + repair},
	}
	for _, tt := range tests {
		o := status.Outlook{
			Decides: tt.decides, Sides: tt.sides, Reasons: [2]string{"A", "B"}, OnStoreFailure: tt.rule, Alone: tt.alone,
		}
		if got := o.StoreAway(); !matches(got, tt.want) {
			t.Errorf("%v decide, %v answer, %s:\n%s, want\n%s", tt.decides, tt.sides, tt.rule, got, tt.want)
		}
	}
}

// The most urgent step comes first, and commands are whole.
func TestNextStep(t *testing.T) {
	const rollback = "shadowlimit rollback writes --reason "
	alarm := func(level gate.Level, reason string) func(*promotion.Assessment) {
		return func(a *promotion.Assessment) { a.Alarm = gate.Alarm{Level: level, Reason: reason} }
	}
	tests := []struct {
		name  string
		stage promotion.Stage
		edit  func(*promotion.Assessment)
		want  string
	}{
		{"passed", promotion.Shadow, nil, "^shadowlimit promote writes --reason WHY$"},
		{"passed, automatic, in the change window", promotion.Shadow, func(a *promotion.Assessment) {
			a.Spec.Config.Automatic = true
		}, "^none: .*within a minute"},
		{"passed, automatic, before the change window", promotion.Shadow, func(a *promotion.Assessment) {
			a.Spec.Config.Automatic, a.Spec.Config.Change.Days = true, []time.Weekday{time.Monday}
			a.Spec.Config.Change.Zone = "America/New_York"
		}, "^none: .*Mon 2026-03-16 13:00 UTC"},
		{"passed, automatic, in a zone that this machine does not know", promotion.Shadow, func(a *promotion.Assessment) {
			a.Spec.Config.Automatic, a.Spec.Config.Change.Zone = true, "Mars"
		}, `^none: .*two weeks.*"Mars"`},
		{"evidence that cannot be read", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.Unreadable, promotion.EvidenceUnreadable+": no answer")
		}, "Redis.*shadowlimit doctor"},
		{"no instance has had it for a month", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.NoInstance, "32 days")
			a.Live, a.Silent = nil, nil
		}, "start the service.*shadowlimit forget writes"},
		{"no instance knows the thresholds", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.Thresholds, "its thresholds are unknown")
			a.State.Fingerprint = "e5f1"
		}, "finish the deployment.*fingerprint e5f1"},
		{"waiting", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, gate.LowScore, "3 blocks", gate.CleanTime, "1 h of 48 h clean")
			a.Gate.Verdict, a.Gate.NoForecast = gate.Wait, "traffic is rare"
		}, "^wait .*traffic is rare.*3 blocks.*1 h of 48 h.*shadowlimit top writes"},
		{"waiting in vain, for more than that", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.FewDenials, "100 of the 200 denials", gate.FewDeniedKeys, "5 of the 20 keys")
			a.Gate.NoForecast, a.Gate.Never = "only 5 keys", true
		}, "^cannot pass: only 5 keys; .*100 of the 200 denials.*5 of the 20 keys"},
		{"waiting, with a forecast and its condition", promotion.Shadow, func(a *promotion.Assessment) {
			at := now.Add(47 * time.Hour)
			hinder(a, gate.HoursUnseen, "1 of 24 hours seen", gate.CleanTime, "1 h of 48 h clean")
			a.Gate.WouldPassAt, a.Gate.WouldPassWhen = &at, "48 h are clean"
		}, "^wait .*Thu 2026-03-12 11:00 UTC.*48 h are clean.*1 of 24 hours seen.*1 h of 48 h clean"},
		{"an action, and what comes later", promotion.Shadow, func(a *promotion.Assessment) {
			at := now.Add(47 * time.Hour)
			hinder(a, gate.DeniesNothing, "of 1000", gate.CleanTime, "1 h of 48 h clean")
			a.Gate.NotBefore, a.Gate.NotBeforeFor = &at, "the clean time"
		}, "candidate limits.*wait: 1 h of 48 h clean; .*Thu 2026-03-12 11:00 UTC.*the clean time"},
		{"nothing is allowed", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.AllowsNothing, "check its limit")
		}, "^check its limit$"},
		{"a ratio above its threshold", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, ofRatio(gate.AboveThreshold, "divergence is 8 %"), ofRatio(gate.AboveThreshold, "newly_denied is 8 %"),
				gate.CleanTime, "1 h clean")
			a.Gate.Verdict = gate.Wait
		}, `divergence is 8 % .*newly_denied.*expected.*threshold.*change the candidate.*wait: 1 h clean; .*shadowlimit top writes`},
		{"ratios above their thresholds, the first from too little", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, early("divergence is 3 %: too early to tell"), ofRatio(gate.AboveThreshold, "newly_denied is 8 %"))
		}, `newly_denied is 8 % .*divergence.*change the candidate`},
		{"a ratio above its threshold, from too little", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, early("divergence is 3 %: too early to tell"))
		}, "more traffic.*divergence is 3 %.*shadowlimit top writes"},
		{"several obstacles, the first that needs an action first", promotion.Shadow, func(a *promotion.Assessment) {
			a.Evidence.NotWriting = []string{"instance-j"}
			hinder(a, gate.FewDenials, "2 of 200", gate.DeniesNothing, "of 1000", gate.HoursUnseen, "3 hours", gate.NotWriting, "j",
				gate.LowScore, "score", gate.CleanTime, "1 h clean")
			a.Gate.Verdict = gate.Insufficient
		}, "log.*instance-j; .*candidate limits.*wait: 2 of 200; and: 3 hours; and: score; and: 1 h clean$"},
		{"no instance is live", promotion.Shadow, func(a *promotion.Assessment) {
			hinder(a, gate.NothingCompared, "nothing", gate.NoInstance, "none is live")
		}, "start the service.*; .*send traffic"},
		{"too little coverage", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			hinder(a, gate.LowCoverage, "90 %")
		}, runbooks + "ShadowlimitCoverageLow.md"},
		{"held for health", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold, a.State.HeldForHealth = true, true
		}, "by itself.*an hour.*shadowlimit resume writes$"},
		{"the red button, passed", promotion.Shadow, func(a *promotion.Assessment) {
			a.Live[0].RedButton = true
			hinder(a, gate.RedButton, "the red button is pressed on i")
		}, "^release the red button of i$"},
		{"the red button, no traffic", promotion.Shadow, func(a *promotion.Assessment) {
			a.Live[0].RedButton = true
			hinder(a, gate.NothingCompared, "nothing", gate.RedButton, "the red button is pressed on i")
		}, "send traffic.*; release the red button of i$"},
		{"the red button, an alarm", promotion.Canary, func(a *promotion.Assessment) {
			a.Live[0].RedButton, a.Alarm = true, gate.Alarm{Level: gate.RollBack, Reason: "overload"}
		}, "^" + rollback + "'overload'; release the red button of i$"},
		{"failed", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			a.Gate.Verdict = gate.Fail
		}, "^change the candidate; .*: shadowlimit top writes"},
		{"failed in a canary", promotion.Canary, func(a *promotion.Assessment) {
			differing(a)
			a.Gate.Verdict = gate.Fail
		}, "^" + rollback + "WHY; .*: shadowlimit top writes"},
		{"dwelling", promotion.Canary, func(a *promotion.Assessment) {
			a.State.StageAt = now
		}, "^wait until Tue 2026-03-10 13:00 UTC: .*0 %"},
		{"dwelling, automatic, beyond the change window", promotion.Canary, func(a *promotion.Assessment) {
			a.Spec.Config.Automatic, a.State.StageAt, a.Spec.Config.Dwell = true, now, 4*time.Hour
		}, "^wait until Tue 2026-03-10 16:00 UTC: .*Wed 2026-03-11 09:00 UTC"},
		{"an alarm", promotion.Canary, alarm(gate.RollBack, "overload"), "^" + rollback + "'overload'$"},
		{"an alarm, the authoritative's store away, and deny", promotion.Canary, func(a *promotion.Assessment) {
			away(a, promotion.FailDeny)
			alarm(gate.RollBack, "overload")(a)
		}, "^repair .*east.*deny every request; then: " + rollback + "'overload'$"},
		{"an alarm, the authoritative's store away, and allow", promotion.Canary, func(a *promotion.Assessment) {
			away(a, promotion.FailAllow)
			alarm(gate.RollBack, "overload")(a)
		}, "^repair .*east.*limit no request; .*at once.*: " + rollback + "'overload'$"},
		{"an alarm that only holds, the authoritative's store away, and deny", promotion.Canary, func(a *promotion.Assessment) {
			away(a, promotion.FailDeny)
			alarm(gate.Hold, "risen")(a)
		}, "repair .*east.*deny every request; then: " + rollback + "'risen'; .*: shadowlimit pause writes --reason 'risen'$"},
		{"an alarm, the authoritative's store away, and local", promotion.Canary, func(a *promotion.Assessment) {
			away(a, promotion.FailLocal)
			alarm(gate.RollBack, "overload")(a)
		}, "^" + rollback + "'overload'$"},
		{"an alarm during a deployment", promotion.Canary, func(a *promotion.Assessment) {
			alarm(gate.RollBack, "overload")(a)
			a.Evidence.OtherFingerprint = []string{"j"}
		}, "^" + rollback + "'overload'$"},
		{"an alarm that only holds", promotion.Canary, alarm(gate.Hold, "risen"),
			": " + rollback + "'risen'; .*: shadowlimit pause writes --reason 'risen'$"},
		{"an alarm that only holds, on hold", promotion.Canary, func(a *promotion.Assessment) {
			alarm(gate.Hold, "risen")(a)
			a.State.Hold, a.State.Percent = true, 50
		}, "50 % of the keys.*: " + rollback + "'risen'; .*: shadowlimit resume writes$"},
		{"an alarm that only holds, on hold, promoted", promotion.Promoted, func(a *promotion.Assessment) {
			alarm(gate.Hold, "risen")(a)
			a.State.Hold, a.State.Percent = true, 100
		}, "all keys.*: " + rollback},
		{"an alarm of the candidate's health, on hold for that", promotion.Canary, func(a *promotion.Assessment) {
			a.Alarm = gate.Alarm{Level: gate.Hold, Reason: "the candidate fails", Health: true}
			a.State.Hold, a.State.HeldForHealth, a.State.Percent = true, true, 50
		}, "50 % of the keys.*: " + rollback + "'the candidate fails'; .*by itself.*an hour.*: shadowlimit resume writes$"},
		{"a deployment", promotion.Canary, func(a *promotion.Assessment) {
			a.Evidence.OtherFingerprint = []string{"instance-j"}
			a.Live = []promotion.Instance{{ID: "i", At: now, Policies: map[string]promotion.Applied{"writes": {Fingerprint: a.State.Fingerprint}}}}
		}, "^undo the deployment.*in shadow.*instance-j"},
		{"a deployment that takes over", promotion.Promoted, func(a *promotion.Assessment) {
			a.Evidence.OtherFingerprint = []string{"j"}
			a.Next = &promotion.Next{Fingerprint: "e2", At: now.Add(20 * time.Second)}
		}, "^wait until Tue 2026-03-10 12:00 UTC: .*e2"},
		{"a deployment that is due", promotion.Promoted, func(a *promotion.Assessment) {
			a.Evidence.OtherFingerprint = []string{"j"}
			a.Next = &promotion.Next{Fingerprint: "e2", At: now.Add(-time.Second)}
		}, "^look again in 15 s: .*e2"},
		{"a deployment that is held", promotion.Shadow, func(a *promotion.Assessment) {
			a.Evidence.OtherFingerprint = []string{"instance-j"}
			held := map[string]promotion.Applied{"writes": {Fingerprint: a.State.Fingerprint}}
			a.Live = []promotion.Instance{{ID: "instance-h", At: now, Policies: held}, {ID: "instance-i", At: now, Idle: true, Policies: held}}
		}, "^finish the deployment or undo it.*instance-j.* by instance-h; .*: shadowlimit adopt writes --reason WHY$"},
		{"on hold", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold = true
		}, ": shadowlimit resume writes$"},
		{"on hold, without a pass", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold = true
			hinder(a, gate.CleanTime, "1 h clean")
		}, ": shadowlimit resume writes; .*wait: 1 h clean$"},
		{"on hold, during a deployment without a pass", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold, a.Evidence.OtherFingerprint = true, []string{"instance-j"}
			hinder(a, gate.DeniesNothing, "of 1000", gate.OtherFingerprints, "j")
		}, "^undo the deployment.*instance-j.*; .*: shadowlimit resume writes; .*candidate limits"},
		{"rolled back", promotion.RolledBack, func(a *promotion.Assessment) {
			a.State.Hold = true
		}, "deploy.*: shadowlimit resume writes --reason WHY$"},
		{"promoted", promotion.Promoted, nil,
			"^nothing until Sat 2026-03-14 12:00 UTC: .*: shadowlimit complete writes --reason WHY; .*: " + rollback + "WHY$"},
		{"promoted a week ago", promotion.Promoted, func(a *promotion.Assessment) {
			a.State.StageAt = now.Add(-promotion.RollbackWindow)
		}, "^shadowlimit complete writes --reason WHY; .*: " + rollback + "WHY$"},
		{"completed", promotion.Completed, nil, "make the candidate the authoritative"},
	}

	for _, tt := range tests {
		if got := reportOf(t, assessed(tt.stage, tt.edit)).NextStep; !matches(got, tt.want) {
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
		gate.Wait: "#verdict\n", gate.Insufficient: "#verdict\n", gate.Fail: "#verdict\n", gate.Pass: "",
	} {
		p.Gate.Verdict = verdict
		if text := textOf(t, p); strings.Contains(text, "glossary.md#") != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%s: no %q in\n%s", verdict, want, text)
		}
	}
}

// Ratios have one remedy, also where one is above its threshold, one was so lately, and one may be.
func TestRatiosHaveOneRemedy(t *testing.T) {
	a := assessed(promotion.Shadow, func(a *promotion.Assessment) {
		hinder(a, early("extra_load is 12 %"), ofRatio(gate.AboveLately, "newly_denied is 8 %"), ofRatio(gate.Suspect, "divergence is 1.9 %"))
	})
	got := reportOf(t, a).NextStep
	if !matches(got, `newly_denied is 8 % .*extra_load, divergence`) || strings.Count(got, "expected") != 1 {
		t.Error(got)
	}
}

// A reader must see that no instance leads: the alert on it sends operators here.
func TestTextSaysWhereItWasJudged(t *testing.T) {
	for leader, want := range map[string]string{"instance-j": `\n  evaluated 12s .*instance-j\n`, "": `\n  evaluated by this command`} {
		text := textOf(t, reportOf(t, assessed(promotion.Shadow, func(a *promotion.Assessment) {
			a.Leader, a.LookedAt = leader, now.Add(12*time.Second)
		})))
		if n := strings.Count(text, "evaluated"); n != 1 || !matches(text, want) {
			t.Errorf("no single %q in\n%s", want, text)
		}
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

		var hour divergence.Hour
		hour.Causes.Denied[divergence.BurstShape] = 3
		hour.Causes.Denied[divergence.ColdState] = 1
		hour.Skipped[algorithms.BreakerOpen], hour.Skipped[algorithms.QueueFull] = 3, 1
		a.Evidence.History.Hours = []divergence.Hour{hour}
	})

	text := textOf(t, reportOf(t, a))
	for _, want := range []string{
		"ALARM: overload", "ann: because", "burst_shape 75 %, cold_state 25 %",
		`2 of 4 requests \(50 %\): breaker_open 75 %, queue_full 25 %`,
		"instances: 40 of 41 live and at 1.2; .*red button.*: 1\n", "instance-7 .*red button", "gone .*silent",
	} {
		if !matches(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n"); n > 40 || strings.Contains(text, "instance-8") {
		t.Errorf("%d lines, want a screen of 40 with the instances that have a note:\n%s", n, text)
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

	for stage, want := range map[promotion.Stage]bool{promotion.Promoted: true, promotion.Completed: false} {
		text := textOf(t, reportOf(t, assessed(stage, edit)))
		if matches(text, `\n  placed .* first .*canary`) != want {
			t.Errorf("%s: shows the places: %t, want %t, in\n%s", stage, !want, want, text)
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
	for newlyDenied, want := range map[int64]string{0: "", 1: " 10.0.0.7 95 (100 %)\n"} {
		p := reportOf(t, assessed(promotion.Shadow, nil))
		p.NewlyDenied, p.TopNewlyDenied = newlyDenied, top

		if text := textOf(t, p); strings.Contains(text, "10.0.0.7") != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%d newly denied: want %q in\n%s", newlyDenied, want, text)
		}
		page := get(status.Page(always(p)), "/status", "").Body.String()
		if strings.Contains(page, "10.0.0.7") != (want != "") || strings.Contains(page, "9.5e+03 %") {
			t.Errorf("%d newly denied: the page has a key of old evidence, or a share of over 100 %%", newlyDenied)
		}
	}
}
