package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Newly denied is what clients see. Divergence, which contains it, stands in brackets.
func TestAlarmNamesNewlyDeniedFirst(t *testing.T) {
	a := rawAlarm(minutesOf(15, 90, 10, 3))

	const want = "newly_denied is 10 % of what the authoritative allows (divergence 10 %) over 15 minutes, threshold 2 %"
	if a.Reason != want {
		t.Errorf("%q, want %q", a.Reason, want)
	}
}

// What asks for a rollback is named before what asks for a hold, and divergence where it is all that is too high.
func TestAlarmNamesWhatAsksForMost(t *testing.T) {
	of := func(agreeAllow, newlyDenied, agreeDeny, newlyAllowed int64) []divergence.Minute {
		list := minutesOf(15, agreeAllow, newlyDenied, 3)
		for i := range list {
			list[i].Tally[divergence.AgreeDeny] = agreeDeny
			for k := range newlyAllowed {
				list[i].Count(divergence.NewlyAllowed, uint64(100+k%3))
			}
		}
		return list
	}

	tests := []struct {
		name    string
		minutes []divergence.Minute
		want    string
	}{
		{"newly allowed asks for a rollback, newly denied for a hold", of(900, 100, 1, 99),
			"newly_allowed is 99 % of what the authoritative denies (divergence 18.1 %) over"},
		{"divergence alone", of(1000, 0, 800, 200), "divergence is 10 % of all comparisons over"},
	}
	for _, tt := range tests {
		if got := rawAlarm(tt.minutes).Reason; !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want it to begin with %q", tt.name, got, tt.want)
		}
	}
}

// Evidence of three minutes has one ratio and one count, although its first minute is not whole and its last is not over.
func TestRatioAndItsCountBelongTogether(t *testing.T) {
	since := time.Date(2026, 3, 2, 12, 0, 30, 0, time.UTC)
	e := Evidence{Since: since, Now: since.Add(150 * time.Second), Live: 1}
	for i, newlyDenied := range []int64{0, 400, 400, 0} {
		var m divergence.Minute
		m.Unix = since.Unix()/60 + int64(i)
		m.Tally[divergence.AgreeAllow], m.Tally[divergence.NewlyDenied] = 1000-newlyDenied, newlyDenied
		e.History.Minutes = append(e.History.Minutes, m)
	}
	e.History.Distinct[divergence.KeysSeen] = 500

	const want = "newly_denied is 20 % of what the authoritative allows, its threshold 2 %, from 4,000 so far"
	if reason := Assess(Config{}.WithDefaults(), e).Reason; !strings.Contains(reason, want) {
		t.Errorf("%q, want %q in it", reason, want)
	}
}

// What is worse over the last 24 h than over all evidence is shown with the count of these hours.
func TestRatioOfTheLastDayHasItsCount(t *testing.T) {
	since := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	e := Evidence{Since: since, Now: since.Add(48 * time.Hour), Live: 1}
	for i := range int64(48 * 60) {
		var m divergence.Minute
		m.Unix = since.Unix()/60 + i
		m.Tally[divergence.AgreeAllow] = 10
		if i >= 24*60 {
			m.Tally[divergence.AgreeAllow], m.Tally[divergence.NewlyDenied] = 9, 1
		}
		e.History.Minutes = append(e.History.Minutes, m)
	}
	j := judge(Config{}.WithDefaults(), &e)

	const want = "newly_denied is 10 % of what the authoritative allows over the last 24 h, its threshold 2 %, from 14,400 so far"
	if got := j.sentence(j.pending()); !strings.HasPrefix(got, want) {
		t.Errorf("%q, want it to begin with %q", got, want)
	}
}
