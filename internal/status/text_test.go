package status_test

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

var now = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// assessed returns a policy that has been in a stage for three days, in which all is well except for the edits.
func assessed(stage stages.Stage, edit func(*stages.Assessment)) stages.Assessment {
	version := stages.Version{Term: 1, Seq: 2}
	began := now.Add(-72 * time.Hour)
	a := stages.Assessment{
		Spec: stages.Spec{
			Policy: "writes", Fingerprint: "e", Config: stages.Config{}.WithDefaults(), Authoritative: "old", Candidate: "new",
		},
		State: stages.State{
			Version: version, Stage: stage, Fingerprint: "e", Since: began, StageAt: began, Actor: "ann", Reason: "because", At: began,
		},
		Evidence: gate.Evidence{Since: began, Now: now, Live: 1},
		Gate:     gate.Result{Verdict: gate.Pass, Reason: "all is well"},
		Live: []stages.Instance{{
			ID: "i", At: now, Policies: map[string]stages.Applied{"writes": {Version: version, Fingerprint: "e"}},
		}},
	}

	if edit != nil {
		edit(&a)
	}
	return a
}

// differing adds a request that the candidate would newly deny.
func differing(a *stages.Assessment) {
	var minute evidence.Minute
	minute.Tally[evidence.AgreeAllow], minute.Tally[evidence.NewlyDenied] = 1, 1
	a.Evidence.History.Minutes = []evidence.Minute{minute}
}

// wait takes a pass back by a condition.
func wait(a *stages.Assessment, reason string) {
	a.Gate.Add(gate.Condition{Name: "time seen", Have: "1 h", Need: "48 h", Reason: reason})
}

func reportOf(t *testing.T, a stages.Assessment) status.Policy {
	t.Helper()
	r, err := status.Of(t.Context(), "shop", evidence.NewMemoryLedger(), []stages.Assessment{a})
	if err != nil {
		t.Fatal(err)
	}
	return r.Policies[0]
}

// The command of an alarm is made to be pasted. Its reason may have several parts, and name a client's key.
func TestCommandsOfAlarmsCanBePasted(t *testing.T) {
	a := assessed(stages.Promoted, nil)
	a.Alarm = gate.Alarm{Level: gate.RollBack, Reason: "protected key $(reboot)'s `x` lost 5 %; 20 clients harmed"}
	text := textOf(t, reportOf(t, a))

	const want = "\n    shadowlimit rollback writes --reason 'protected key $(reboot)'\\''s `x` lost 5 %; 20 clients harmed'\n"
	if !strings.Contains(text, want) {
		t.Errorf("%s\nwant %s", text, want)
	}
}

// away takes the authoritative's store from the instance.
func away(a *stages.Assessment, rule string) {
	a.Spec.Store, a.Spec.OnStoreFailure = "east", rule
	a.Live[0].Failing = []string{"east", "west"}
}

// matches tells whether a text has the tokens of a pattern in their order; the pattern "" is of no text.
func matches(text, pattern string) bool {
	return (text == "") == (pattern == "") && regexp.MustCompile(pattern).MatchString(text)
}

// flat puts a text into one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

func textOf(t *testing.T, p status.Policy) string {
	t.Helper()
	var b strings.Builder
	if err := (&status.Report{Name: "shop", Policies: []status.Policy{p}}).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// An operator who is about to roll back must see what on_store_failure would make of that.
func TestStoreUnreachableIsShown(t *testing.T) {
	for rule, want := range map[string]string{
		stages.FailDeny:  `east.* 1 of 1 .*deny: do not roll back`,
		stages.FailAllow: `east.* 1 of 1 .*allow:.* rollback no request`,
		stages.FailLocal: `east.* 1 of 1 .* share .*authoritative`,
		"":               `east.* 1 of 1 .* share .*authoritative`,
	} {
		// A stage that could not be read may be one that a rollback would end.
		unread := assessed("", func(a *stages.Assessment) { away(a, rule) })
		if got := status.StoreUnreachable(&unread); !matches(got, want) {
			t.Errorf("%q, no stage: %s", rule, got)
		}
		text := textOf(t, reportOf(t, assessed(stages.Promoted, func(a *stages.Assessment) { away(a, rule) })))
		if !matches(flat(text), ` STORE UNREACHABLE: .*`+want) {
			t.Errorf("%q: %s\nwant %s", rule, text, want)
		}
	}

	// After a rollback there is nothing to warn of: the outage is there. It is there, too, while a candidate in the same store
	// is enforced.
	for rule, want := range map[string]string{
		stages.FailDeny:  "request.* denied now; repair",
		stages.FailAllow: "no request.* limited now; repair",
		stages.FailLocal: "share of the limit until it answers$",
	} {
		rolledBack := assessed(stages.RolledBack, func(a *stages.Assessment) { away(a, rule) })
		beside := assessed(stages.Promoted, func(a *stages.Assessment) {
			away(a, rule)
			a.Spec.CandidateStore = "east"
		})
		completed := assessed(stages.Completed, func(a *stages.Assessment) {
			away(a, rule)
			a.Spec.Store, a.Spec.CandidateStore = "north", "west"
		})
		for _, a := range []stages.Assessment{rolledBack, beside, completed} {
			if p := reportOf(t, a); !matches(p.StoreUnreachable, want) {
				t.Errorf("%q, %s: %s, want %s", rule, p.Stage, p.StoreUnreachable, want)
			}
		}
	}

	// A completed policy does not ask its authoritative.
	completed := assessed(stages.Completed, func(a *stages.Assessment) { away(a, stages.FailDeny) })
	if p := reportOf(t, completed); !strings.Contains(p.StoreUnreachable, "do not roll back") {
		t.Errorf("completed: %s", p.StoreUnreachable)
	}

	// A candidate's store does not matter to a rollback.
	a := assessed(stages.Promoted, func(a *stages.Assessment) { a.Live[0].Failing = []string{"west"} })
	if p := reportOf(t, a); p.StoreUnreachable != "" {
		t.Errorf("the authoritative's store answers, but the report says %q", p.StoreUnreachable)
	}
}

// What an instance says in an outage holds for the side that decides there, and for the side that stands in for it.
func TestStoreUnreachableHere(t *testing.T) {
	type sides = [2]status.Answering // authoritative, candidate
	const ok, silent, refusing, lapsing = status.Answers, status.Silent, status.Refusing, status.Lapsing
	const deny, allow, local = stages.FailDeny, stages.FailAllow, stages.FailLocal
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
		if got := o.StoreUnreachable(); !matches(got, tt.want) {
			t.Errorf("%v decide, %v answer, %s:\n%s, want\n%s", tt.decides, tt.sides, tt.rule, got, tt.want)
		}
	}
}

// The most urgent step comes first, and commands are whole. A step without a command is "-".
func TestNext(t *testing.T) {
	const promote, resume, top = "promote writes --reason WHY", "resume writes", "top writes"
	const rollback, rollbackWhy = "rollback writes --reason 'harm'", "rollback writes --reason WHY"
	const pause, doctor = "pause writes --reason 'harm'", "doctor"
	alarm := func(level gate.Level) func(*stages.Assessment) {
		return func(a *stages.Assessment) { a.Alarm = gate.Alarm{Level: level, Reason: "harm"} }
	}
	all := func(edits ...func(*stages.Assessment)) func(*stages.Assessment) {
		return func(a *stages.Assessment) {
			for _, edit := range edits {
				edit(a)
			}
		}
	}
	held := func(a *stages.Assessment) { a.State.Hold = true }
	pressed := func(a *stages.Assessment) {
		a.Live[0].RedButton = true
		a.Gate.Add(gate.Condition{Name: "red button"})
	}
	waiting := func(a *stages.Assessment) { wait(a, "it soaks") }
	unreachable := func(rule string) func(*stages.Assessment) {
		return func(a *stages.Assessment) { away(a, rule) }
	}
	failed := func(a *stages.Assessment) { a.Gate.Verdict = gate.Fail }
	automatic := func(a *stages.Assessment) { a.Spec.Config.Automatic = true }
	above := func(a *stages.Assessment) {
		high := 0.08
		a.Gate.NewlyDenied = gate.RatioResult{Ratio: &high, Threshold: 0.02}
		differing(a)
		waiting(a)
	}
	other := func(a *stages.Assessment) {
		a.Evidence.OtherFingerprint = []string{"j"}
		a.Live = []stages.Instance{{ID: "i", At: now, Policies: map[string]stages.Applied{"writes": {Fingerprint: a.State.Fingerprint}}}}
	}

	for _, tt := range []struct {
		name  string
		stage stages.Stage
		edit  func(*stages.Assessment)
		want  string
	}{
		{"passed", stages.Shadow, nil, promote},
		{"passed, automatic", stages.Shadow, automatic, "-"},
		{"waiting", stages.Shadow, waiting, "-"},
		{"a ratio above its threshold", stages.Shadow, above, "-; " + top},
		{"failed", stages.Shadow, all(differing, failed), "-; " + top},
		{"failed in a canary", stages.Canary, all(differing, failed), rollbackWhy + "; " + top},
		{"gone", stages.Shadow, func(a *stages.Assessment) {
			waiting(a)
			a.Live, a.Silent = nil, nil
		}, "-; forget writes"},
		{"the store is unreachable", stages.Shadow, all(waiting, unreachable(stages.FailDeny)), doctor + "; -"},
		{"the candidate's is", stages.Canary, all(waiting, func(a *stages.Assessment) {
			a.Spec.CandidateStore, a.Live[0].Failing = "west", []string{"west"}
		}), doctor + "; -"},
		{"no heartbeats", stages.Shadow, all(waiting, func(a *stages.Assessment) {
			a.Silent, a.Live = a.Live, nil
		}), doctor + "; -"},
		{"no request decided yet", stages.Promoted, func(a *stages.Assessment) {
			a.Live = []stages.Instance{{ID: "i", At: now, Idle: true, Policies: map[string]stages.Applied{"writes": {Fingerprint: "other"}}}}
		}, "-"},
		{"the red button", stages.Shadow, pressed, "-"},
		{"the red button, on hold", stages.Canary, all(pressed, held), "-; " + resume},
		{"an alarm", stages.Canary, alarm(gate.RollBack), rollback},
		{"an alarm, the red button", stages.Canary, all(pressed, alarm(gate.RollBack)), rollback + "; -"},
		{"an alarm, the store unreachable, deny", stages.Canary, all(unreachable(stages.FailDeny), alarm(gate.RollBack)), "-; " + rollback + "; " + doctor},
		{"an alarm, the store unreachable, allow", stages.Canary, all(unreachable(stages.FailAllow), alarm(gate.RollBack)), "-; " + rollback + "; " + doctor},
		{"an alarm, the store unreachable, local", stages.Canary, all(unreachable(stages.FailLocal), alarm(gate.RollBack)), rollback + "; " + doctor},
		{"an alarm that only holds", stages.Canary, alarm(gate.Hold), rollback + "; " + pause},
		{"an alarm that only holds, on hold", stages.Canary, all(held, alarm(gate.Hold)), rollback + "; " + resume},
		{"an alarm during a deployment", stages.Canary, all(other, alarm(gate.RollBack)), rollback},
		{"a deployment", stages.Canary, other, "-; adopt writes --reason WHY"},
		{"a deployment that takes over", stages.Promoted, all(other, func(a *stages.Assessment) {
			a.Next = &stages.Next{Fingerprint: "e2", At: now.Add(20 * time.Second)}
		}), "-"},
		{"on hold", stages.Canary, held, resume},
		{"held for health", stages.Canary, all(held, func(a *stages.Assessment) { a.State.HeldForHealth = true }), resume},
		{"rolled back", stages.RolledBack, held, "-; resume writes --reason WHY"},
		{"promoted", stages.Promoted, nil, "-; " + rollbackWhy},
		{"promoted a week ago", stages.Promoted, func(a *stages.Assessment) {
			a.State.StageAt = now.Add(-stages.RollbackWindow)
		}, "complete writes --reason WHY; " + rollbackWhy},
		{"completed", stages.Completed, nil, "-"},
	} {
		p := reportOf(t, assessed(tt.stage, tt.edit))
		var got []string
		for _, step := range p.Next {
			got = append(got, cmp.Or(strings.TrimPrefix(step.Command, "shadowlimit "), "-"))
			if step.Text == "" {
				t.Errorf("%s: a step without a text: %+v", tt.name, p.Next)
			}
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("%s: %s, want %s: %+v", tt.name, text, tt.want, p.Next)
		}
	}
}

// A waiting policy says for what, and shows its conditions.
func TestConditionsAreShown(t *testing.T) {
	p := reportOf(t, assessed(stages.Shadow, func(a *stages.Assessment) { wait(a, "it soaks") }))
	if p.Next[0].Text != "wait: it soaks" {
		t.Error(p.Next)
	}
	page := get(status.Page(always(p)), "/status", "").Body.String()
	for form, text := range map[string]string{"the text": textOf(t, p), "the page": page} {
		for _, want := range []string{"time seen", "1 h", "48 h"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q:\n%s", form, want, text)
			}
		}
	}
}

// After the last move a report says that its evaluation is older, and offers no step of before.
func TestOldEvaluationIsNoStep(t *testing.T) {
	before := assessed(stages.Shadow, nil)
	published := stages.PublishedOf(&before, "j")
	state := before.State
	state.Seq, state.Stage, state.Percent = state.Seq+1, stages.Canary, 1
	after := published.Assessment(before.Spec, state)
	after.Live = before.Live
	p := reportOf(t, after)
	if p.Gate.Verdict != gate.Wait || p.Next[0].Command != "" || len(p.Next) != 1 {
		t.Errorf("%s: %+v", p.Gate.Verdict, p.Next)
	}
}

// A store that has lost what a limiter remembers is told at the top, until a window has passed.
func TestLostDataIsShown(t *testing.T) {
	for after, want := range map[time.Duration]bool{time.Minute: true, -time.Minute: false} {
		p := reportOf(t, assessed(stages.Promoted, func(a *stages.Assessment) { a.LostUntil = now.Add(after) }))
		text := textOf(t, p)
		if shown := matches(text, `^writes\n  DATA LOST: `); shown != want || (p.DataLost != "") != want {
			t.Errorf("until %s from now: %t in\n%s", after, shown, text)
		}
	}
}

// A hundred policies have a hundred lines of 80 columns, the most urgent first, below each warning once.
func TestListIsALineAPolicy(t *testing.T) {
	var policies []status.Policy
	for n := range 100 {
		p := reportOf(t, assessed(stages.Canary, func(a *stages.Assessment) {
			high := 0.0123
			a.Gate.NewlyDenied = gate.RatioResult{Ratio: &high, Threshold: 0.02}
			a.State.Percent, a.State.Hold = 12.5, n%2 == 0
			switch n {
			case 97, 98:
				away(a, stages.FailDeny)
			case 96:
				a.Live[0].RedButton = true
			case 99:
				a.Alarm = gate.Alarm{Level: gate.RollBack, Reason: "harm"}
			}
		}))
		p.Name = fmt.Sprintf("a-policy-with-a-rather-long-name-%d", n)
		policies = append(policies, p)
	}

	var b strings.Builder
	r := status.Report{Name: "shop", Policies: policies}
	if err := r.WriteList(&b); err != nil {
		t.Fatal(err)
	}
	head, table, _ := strings.Cut(b.String(), "policy ")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 102 || !strings.HasSuffix(lines[101], "status POLICY for one") {
		t.Errorf("%d lines, want a header, 100 and a last one:\n%s", len(lines), table)
	}
	if !matches(flat(head), `^ALARM a-policy\S*-99: harm STORE UNREACHABLE a-policy\S*-97, a-policy\S*-98: .*RED BUTTON a-policy\S*-96: pressed on i`) || strings.Count(head, "STORE UNREACHABLE") != 1 {
		t.Errorf("above the list:\n%s", head)
	}
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(line) > 81 {
			t.Errorf("a line of %d columns: %s", utf8.RuneCountInString(line)-1, line)
		}
	}
	for line, want := range map[int]string{1: `canary 12\.5 % +pass`, 4: `newly_denied 1.23 %  3 days$`} {
		if !matches(lines[line], want) {
			t.Errorf("line %d: %s, want %s", line, lines[line], want)
		}
	}
}

// What all policies have fits a screen: a line for each of a few; of many only for those that need somebody, the others are counted.
func TestScreenHasThoseThatNeedSomebody(t *testing.T) {
	waiting := func(name string) status.Policy {
		p := reportOf(t, assessed(stages.Shadow, func(a *stages.Assessment) { a.Gate.Verdict = gate.Wait }))
		p.Name = name
		return p
	}
	harmful := func(name string) status.Policy {
		p := reportOf(t, assessed(stages.Canary, func(a *stages.Assessment) {
			a.Alarm = gate.Alarm{Level: gate.RollBack, Reason: "harm of " + name}
		}))
		p.Name = name
		return p
	}
	for _, tt := range []struct{ all, harmed, lines int }{
		{20, 0, 20}, {20, 3, 20}, {21, 0, 0}, {100, 3, 3}, {100, 20, 20}, {100, 70, 20}, {100, 100, 20},
	} {
		var r status.Report
		for n := range tt.all {
			if n < tt.harmed {
				r.Policies = append(r.Policies, harmful(fmt.Sprint("harmed-", n)))
			} else {
				r.Policies = append(r.Policies, waiting(fmt.Sprint("waits-", n)))
			}
		}
		var b strings.Builder
		if err := r.WriteScreen(&b); err != nil {
			t.Fatal(err)
		}
		text, lines := b.String(), 0
		for line := range strings.Lines(text) {
			if matches(line, `^(harmed|waits)-\d`) {
				lines++
			}
		}
		if lines != tt.lines || strings.Count(text, "\n") > 45 {
			t.Errorf("%d of %d: %d lines, want %d of\n%s", tt.harmed, tt.all, lines, tt.lines, text)
		}
		if lines < tt.all {
			for n, what := range map[int]string{tt.harmed - lines: " more need somebody: ", tt.all - tt.harmed: " need nobody: "} {
				if n > 0 && !matches(text, fmt.Sprint(`\n`, n, what, n, ` `)) && !strings.HasPrefix(text, fmt.Sprint(n, what, n, " ")) {
					t.Errorf("%d of %d: no %d%s in\n%s", tt.harmed, tt.all, n, what, text)
				}
			}
		}
	}
}

// The text has 80 columns, but for commands, which are to be pasted whole.
func TestTextHas80Columns(t *testing.T) {
	for line := range strings.Lines(textOf(t, goldenPolicy(t))) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 && !strings.HasPrefix(line, "    shadowlimit ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// A reader must see that no instance leads: the alert on it sends operators here.
func TestTextSaysWhereItWasEvaluated(t *testing.T) {
	for leader, want := range map[string]string{"instance-j": `\n  evaluated +12s .*instance-j\n`, "": `\n  evaluated +for this report`} {
		text := textOf(t, reportOf(t, assessed(stages.Shadow, func(a *stages.Assessment) {
			a.Leader, a.LookedAt = leader, now.Add(12*time.Second)
		})))
		if n := strings.Count(text, "evaluated"); n != 1 || !matches(text, want) {
			t.Errorf("no single %q in\n%s", want, text)
		}
	}
}

func TestTextFitsAScreen(t *testing.T) {
	a := assessed(stages.Canary, func(a *stages.Assessment) {
		a.Alarm.Reason = "overload"
		for n := range 40 {
			i := a.Live[0]
			i.ID, i.RedButton = fmt.Sprint("instance-", n), n == 7
			a.Live = append(a.Live, i)
		}
		a.Silent = []stages.Instance{{ID: "gone", At: now.Add(-time.Minute), Policies: a.Live[0].Policies}}

		differing(a)
		a.Evidence.History.Minutes[0].Tally[evidence.Inconclusive] = 2

		var hour evidence.Hour
		hour.Causes.Denied[evidence.BurstShape] = 3
		hour.Causes.Denied[evidence.ColdState] = 1
		hour.Skipped[algorithms.BreakerOpen], hour.Skipped[algorithms.QueueFull] = 3, 1
		a.Evidence.History.Hours = []evidence.Hour{hour}
	})

	text := textOf(t, reportOf(t, a))
	for _, want := range []string{
		"ALARM: overload", "ann: because", "burst_shape 75 %, cold_state 25 %",
		`2 of 4 requests \(50 %\): breaker_open 75 %,\s+queue_full 25 %`,
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

// A limit of each instance stands with what the live ones admit together.
func TestLimitPerProcessHasItsSum(t *testing.T) {
	p := reportOf(t, assessed(stages.Shadow, func(a *stages.Assessment) {
		a.Spec.Authoritative = "mine, 10 per 1s, burst 20 in each instance"
		a.Spec.PerProcess[algorithms.Authoritative] = algorithms.Limit{Requests: 10, Window: time.Second, Burst: 20}
		a.Live = []stages.Instance{{ID: "a", At: now}, {ID: "b", At: now}, {ID: "c", At: now}}
		a.Silent = []stages.Instance{{ID: "d", At: now.Add(-time.Hour)}}
	}))
	if want := "mine, 10 per 1s, burst 20 in each instance: 30 per 1s, burst 60 in 3 instances"; p.Authoritative != want || p.Candidate != "new" {
		t.Errorf("authoritative %q, candidate %q, want %q and new", p.Authoritative, p.Candidate, want)
	}
}

// An operator sees which keys do not come with the canary's percentage, until all keys have the candidate.
func TestPinnedKeysAreShown(t *testing.T) {
	edit := func(a *stages.Assessment) {
		a.State.Percent = 100
		a.Spec.First = true
	}

	for stage, want := range map[stages.Stage]bool{stages.Promoted: true, stages.Completed: false} {
		text := textOf(t, reportOf(t, assessed(stage, edit)))
		if matches(text, `\n  first +keys .*canary`) != want {
			t.Errorf("%s: shows the pinned keys: %t, want %t, in\n%s", stage, !want, want, text)
		}
	}

	plain := reportOf(t, assessed(stages.Promoted, func(a *stages.Assessment) { a.State.Percent = 100 }))
	if plain.Pinned() != "" || plain.Enforced != "candidate" {
		t.Errorf("without pinned keys: %q, enforced %q", plain.Pinned(), plain.Enforced)
	}
}

// Right after a resume the lists of the day have keys of the evidence before it, of which no share can be told.
func TestKeysOfOldEvidenceHaveNoShare(t *testing.T) {
	top := []evidence.KeyCount{{Key: "10.0.0.7", Count: 95}}
	for newlyDenied, want := range map[int64]string{0: "", 1: " 10.0.0.7 95 (100 %)\n"} {
		p := reportOf(t, assessed(stages.Shadow, nil))
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

// A step that waits for another fingerprint names the stage that the policy has with it, which may be the one in which it left.
func TestNextNamesTheStageOfAnotherFingerprint(t *testing.T) {
	for back, want := range map[stages.Past]string{
		{}: "shadow", {Fingerprint: "e2", Stage: stages.Promoted, Percent: 100, Term: 1}: "promoted",
	} {
		p := reportOf(t, assessed(stages.Canary, func(a *stages.Assessment) {
			a.State.Term = 1
			if back.Fingerprint != "" {
				a.State.Past = []stages.Past{back}
			}
			a.Evidence.OtherFingerprint = []string{"j"}
			a.Next = &stages.Next{Fingerprint: "e2", At: now.Add(20 * time.Second)}
		}))
		if !strings.HasSuffix(p.Next[0].Text, " then as "+want) {
			t.Errorf("%+v, want %s", p.Next, want)
		}
	}
}

// A promoted candidate whose ratio is too high is not left alone for a week.
func TestPromotedCandidateThatDiffers(t *testing.T) {
	p := reportOf(t, assessed(stages.Promoted, func(a *stages.Assessment) {
		differing(a)
		ratio := 0.1
		a.Gate.NewlyDenied.Ratio, a.Gate.NewlyDenied.Threshold = &ratio, 0.02
	}))
	if n := len(p.Next); n != 3 || !strings.HasPrefix(p.Next[2].Command, "shadowlimit rollback writes") {
		t.Errorf("%+v", p.Next)
	}
}

// A policy file that has undone a promotion is told of, until the policy moves on.
func TestUndonePromotion(t *testing.T) {
	undone := func(stage stages.Stage, term int64) status.Policy {
		return reportOf(t, assessed(stage, func(a *stages.Assessment) {
			a.State.Term = 1
			a.State.Past = []stages.Past{
				{Fingerprint: "e2", Stage: stages.Promoted, Percent: 100, Term: term, Left: now.Add(-time.Hour), By: "leader a"},
				{Fingerprint: "e3", Stage: stages.Shadow, Term: term, Left: now.Add(-time.Minute), By: "leader b"},
			}
		}))
	}
	p := undone(stages.Shadow, 1)
	want := status.Undone{Stage: stages.Promoted, Percent: 100, Fingerprint: "e2", Until: now.Add(-time.Hour), By: "leader a"}
	if p.Undone == nil || *p.Undone != want || !strings.Contains(textOf(t, p), "UNDONE: ") {
		t.Errorf("%+v, want %+v, in\n%s", p.Undone, want, textOf(t, p))
	}
	for _, p := range []status.Policy{undone(stages.Canary, 1), undone(stages.Shadow, 0)} {
		if p.Undone != nil {
			t.Errorf("%s: %+v, and it would not return to it", p.Stage, p.Undone)
		}
	}
}

// A pass of a policy that another program enforces is the word to change that program: no command takes the step, not even in
// automatic mode.
func TestNextOfAFollowedPolicy(t *testing.T) {
	for _, automatic := range []bool{false, true} {
		p := reportOf(t, assessed(stages.Shadow, func(a *stages.Assessment) {
			a.Spec.Followed, a.Spec.Config.Automatic = true, automatic
		}))
		if len(p.Next) != 1 || p.Next[0].Command != "" || !strings.Contains(p.Next[0].Text, "new") {
			t.Errorf("automatic %v: %+v", automatic, p.Next)
		}
	}
}
