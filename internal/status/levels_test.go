package status_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// A reader sees how much of a limit holds, and whether that is decided by a signal.
func TestLevelText(t *testing.T) {
	const none, quiet = "", ".*no signal"
	at := now.Add(-time.Hour)
	for _, row := range []struct {
		authoritative, candidate string
		levels                   map[string]adaptive.State
		want                     string
	}{
		{none, none, map[string]adaptive.State{"a": {}}, ""},
		{"a", none, map[string]adaptive.State{"a": {}}, "^authoritative.*whole limit" + quiet},
		{none, "a", map[string]adaptive.State{"a": {Seen: now}}, "^candidate.*whole limit$"},
		{none, "a", map[string]adaptive.State{"a": {Less: 16, At: at, Seen: now}}, "^candidate.* 75 % .*" + clock(at) + "$"},
		{none, "a", map[string]adaptive.State{"a": {Less: 16, At: at, Seen: at}}, "^candidate.* 75 % .*" + clock(at) + quiet},
		{"a", "a", map[string]adaptive.State{"a": {Less: 32, Seen: now}}, "^authoritative.* 50 % .*; candidate.* 50 % "},
		{none, "b", map[string]adaptive.State{"a": {}}, "^candidate: no level"},
	} {
		p := reportOf(t, assessed(stages.Shadow, func(a *stages.Assessment) {
			a.Spec.AuthoritativeRule, a.Spec.CandidateRule, a.Levels = row.authoritative, row.candidate, row.levels
		}))

		if got := p.LevelText(); !matches(got, row.want) {
			t.Errorf("%+v: %q\nwant %q", row.levels, got, row.want)
		}
		if p.Levels == nil {
			t.Error("the list of levels is null in JSON")
		}
	}
}

func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") }
