package status_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// hostileText would run in a browser, steer a terminal, end a cell, a code or a line, and wake a team.
const hostileText = "`|\\|``](https://evil.test) ![x](y) @team <script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\n# x www.evil.test"

// changeOf is a change whose texts of clients and operators are hostile.
func changeOf(t *testing.T, stage stages.Stage) (markdown, page string) {
	t.Helper()
	a := assessed(stage, func(a *stages.Assessment) {
		differing(a)
		wait(a, "the time seen is 1 h of 48 h")
		a.Spec.Labels = map[string]string{"team": hostileText}
		a.Spec.Candidate, a.Gate.Verdict = hostileText, gate.Wait
		a.Gate.NewlyDenied.Threshold, a.Gate.Reason = 0.02, hostileText
		a.State.Actor, a.State.Reason = hostileText, hostileText
	})
	p := reportOf(t, a)
	p.TopNewlyDenied = []evidence.KeyCount{{Key: hostileText, Count: 1}, {Key: "acme", Count: 1}}
	p.KeysNewlyDenied = 2
	c := status.Change{Service: "shop", Policy: p, Since: a.State.Since, Moves: []stages.State{a.State, {Stage: stages.Canary, Percent: 1, From: "shadow", At: now}}}
	var b, h bytes.Buffer
	if err := c.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteHTML(&h); err != nil {
		t.Fatal(err)
	}
	return b.String(), h.String()
}

var (
	escapedOrCode = regexp.MustCompile("(?s)\\\\.|`+")
	ticks         = regexp.MustCompile("`+")
)

// outsideCode is Markdown without its code, which ends where as many backticks stand as began it, and without escaped characters.
func outsideCode(text string) string {
	var b strings.Builder
	for {
		begin := escapedOrCode.FindStringIndex(text)
		if begin == nil {
			return b.String() + text
		}
		b.WriteString(text[:begin[0]])
		if text[begin[0]] != '`' {
			text = text[begin[1]:]
			continue
		}
		fence, rest := text[begin[0]:begin[1]], text[begin[1]:]
		text = ""
		for _, at := range ticks.FindAllStringIndex(rest, -1) {
			if at[1]-at[0] == len(fence) {
				text = rest[at[1]:]
				break
			}
		}
		if text == "" {
			return b.String() + fence // it never ends
		}
	}
}

// A change has the facts in both forms, and nothing that a client or an operator has written means anything there.
func TestChange(t *testing.T) {
	markdown, page := changeOf(t, stages.Shadow)
	for _, want := range []string{
		"# shop: writes", "From `old`", "| authoritative allows | 1 | 1 newly denied |", "- newly denied: 1 request of 2 keys", "`acme`: 1, 100 %",
		"| time seen | no | 1 h | 48 h |", "| newly denied | – | 2 % |", "shadow → canary 1 %", "gate: **wait**",
	} {
		if !strings.Contains(markdown, want) {
			t.Errorf("no %q in\n%s", want, markdown)
		}
	}
	text := outsideCode(markdown)
	for _, found := range []string{"<", "](", "![", "://", "www.", "@", "`", "\x1b", "\n# x"} {
		if strings.Contains(text, found) {
			t.Errorf("%q means something in\n%s", found, text)
		}
	}
	for _, want := range []string{"writes", "newly denied, 2 keys", "acme", "time seen", "canary 1 %", "Moves"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, found := range []string{"<script", "<img", "\x1b", "url("} {
		if strings.Contains(page, found) {
			t.Errorf("the page has %q", found)
		}
	}
	if !strings.Contains(page, "sha256-") {
		t.Error("the page has no policy of what it may load")
	}

	// Behind the end no step is waited for.
	if markdown, _ := changeOf(t, stages.RolledBack); strings.Contains(markdown, "| condition |") {
		t.Errorf("rolled back:\n%s", markdown)
	}
}
