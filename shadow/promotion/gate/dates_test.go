package gate_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// obstacleOf returns the text of an obstacle of a kind, "" if there is none.
func obstacleOf(g gate.Result, kind gate.ObstacleKind) string {
	for _, o := range g.Obstacles {
		if o.Kind == kind {
			return o.Text
		}
	}
	return ""
}

var date = regexp.MustCompile(`[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d UTC if`)

// An obstacle that may leave by itself says when. It is there until a minute before that, and not at that instant, if nothing is lost and
// no request differs meanwhile.
func TestDatesOfObstaclesComeTrue(t *testing.T) {
	badUntil := func(hours int) evidence {
		return evidence{badHours: []int64{60}, minute: func(m *divergence.Minute) {
			if m.Unix >= mondayMinute+int64(hours)*hour {
				m.Tally = divergence.Tally{}
			}
		}}
	}
	loses := acme(allowed(200, 60), none)

	tests := []struct {
		name      string
		kind      gate.ObstacleKind
		cfg       gate.Config
		e         evidence
		protected divergence.ProtectedKeys // of hour 60
		want      string
	}{
		{"a ratio of the last day", gate.AboveLately, gate.Config{}, badUntil(72), nil, ""},
		{"a ratio that old incidents have raised", gate.AboveThreshold, gate.Config{Divergence: 0.005, NewlyDenied: 0.5},
			evidence{badHours: []int64{1}}, nil, ""},
		{"a protected key", gate.ProtectedLost, protecting, evidence{}, loses, "Sun 2026-03-08 13:00 UTC"},
	}
	for _, tt := range tests {
		at := func(now time.Time) string {
			e := tt.e
			e.minutes = int(now.Sub(monday).Minutes())
			built := e.build()
			built.History.Hours = []divergence.Hour{{Unix: monday.Unix()/divergence.SecondsPerHour + 60, Protected: tt.protected}}
			return obstacleOf(gate.Assess(tt.cfg.WithDefaults(), built), tt.kind)
		}

		text := at(monday.Add(72 * time.Hour))
		found := strings.TrimSuffix(date.FindString(text), " if")
		if found == "" || !strings.Contains(found, tt.want) {
			t.Errorf("%s: no date, or another than %q: %q", tt.name, tt.want, text)
			continue
		}

		end, err := time.Parse("Mon 2006-01-02 15:04 MST", found)
		if err != nil {
			t.Fatal(err)
		}
		if at(end.Add(-time.Minute)) == "" || at(end) != "" {
			t.Errorf("%s: a minute before its date %q, at its date %q, in the text %q", tt.name, at(end.Add(-time.Minute)), at(end), text)
		}
	}
}

// Of a quiet policy 24 hours say too little, so the ratio reaches further back. The sentence says how far.
func TestQuietPoliciesAreJudgedByMoreThanADay(t *testing.T) {
	quiet := func(m *divergence.Minute) {
		at := m.Unix - mondayMinute
		m.Tally = divergence.Tally{}
		if at%45 == 0 {
			m.Tally[divergence.AgreeAllow], m.Tally[divergence.AgreeDeny] = 1, 4
		}
		if at == 119*hour+1 {
			m.Tally[divergence.NewlyDenied] = 2
		}
	}

	text := obstacleOf(gate.Assess(gate.Config{}.WithDefaults(), evidence{hours: 120, minute: quiet}.build()), gate.AboveLately)
	if want := "newly_denied is 4 % of what the authoritative allows since Thu 2026-03-05 12:00 UTC"; !strings.HasPrefix(text, want) {
		t.Errorf("%q, want it to begin with %q", text, want)
	}
	if date.MatchString(text) {
		t.Errorf("%q has a date, but less than a day's evidence suffices by traffic alone", text)
	}
}
