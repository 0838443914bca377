package replay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// lines are spans with a line every minute, in minutes from a Monday's midnight on.
type lines [][2]int64

func (l lines) stretches() replay.Stretches {
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).UnixMicro()
	var p replay.Presence
	for _, s := range l {
		for m := s[0]; m < s[1]; m++ {
			p.Add(monday + m*60e6 + 17e6)
		}
	}
	return p.Stretches()
}

const (
	anHour = 60
	aDay   = 24 * anHour
)

// office has lines from 8 to 18 on the days.
func office(days ...int64) (l lines) {
	for _, d := range days {
		l = append(l, [2]int64{d*aDay + 8*anHour, d*aDay + 18*anHour})
	}
	return l
}

// Time without lines is neither live nor clean, unless the service is idle in the same hours of most days.
func TestStretches(t *testing.T) {
	year := int64(365 * aDay)
	tests := []struct {
		name        string
		lines       lines
		live, holes int64 // minutes
		idle        int   // hours of the day
	}{
		{"none", nil, 0, 0, 0},
		{"one", lines{{5, 6}}, 1, 0, 0},
		{"a day", lines{{0, aDay}}, aDay, 0, 0},
		{"an hour without", lines{{0, 100}, {160, aDay}}, aDay, 0, 0},
		{"over an hour", lines{{0, 100}, {161, aDay}}, aDay - 61, 61, 0},
		{"a stray line years before", lines{{-50 * year, -50*year + 1}, {0, aDay}}, aDay + 1, 50*year - 1, 0},
		{"a stray line days after", lines{{0, aDay}, {5 * aDay, 5*aDay + 1}}, aDay + 1, 4 * aDay, 0},
		{
			"a stray line a day", lines{{0, aDay}, {aDay + 720, aDay + 721}, {2*aDay + 600, 2*aDay + 601}, {3*aDay + 480, 3*aDay + 481}},
			aDay + 3, 3*aDay - 3 - 959, 0,
		},
		{"two days of an office", office(0, 7), 2 * 10 * anHour, 7*aDay - 10*anHour, 0},
		{"nights of an office", office(0, 1, 2, 3), 3*aDay + 10*anHour, 0, 14},
		{"its weekend", office(0, 1, 2, 3, 4, 7, 8), 4*aDay + 10*anHour + aDay + 10*anHour, 2*aDay + 14*anHour, 14},
		{
			"one night of five", lines{{0, 20 * anHour}, {30 * anHour, 5 * aDay}},
			5*aDay - 10*anHour, 10 * anHour, 0,
		},
	}

	for _, tt := range tests {
		s := tt.lines.stretches()
		live, holes, idle := int64(0), int64(0), 0
		for _, span := range s.Live {
			live += span.To - span.From
		}
		for _, span := range s.Holes {
			holes += span.To - span.From
		}
		for _, yes := range s.Idle {
			if yes {
				idle++
			}
		}
		if live != tt.live || holes != tt.holes || idle != tt.idle {
			t.Errorf("%s: %d minutes live, %d in holes, %d idle hours, want %d, %d and %d",
				tt.name, live, holes, idle, tt.live, tt.holes, tt.idle)
		}

		text := strings.Join(s.Warnings(), "\n")
		for want, on := range map[string]bool{
			"an hour": holes > 0, "idle hours": idle > 0,
			"2000": tt.name == "a stray line years before",
		} {
			if strings.Contains(text, want) != on {
				t.Errorf("%s: %q, want %q in it: %t", tt.name, text, want, on)
			}
		}
	}
}

// Holes are named, but not all of them.
func TestManyHolesAreOneWarning(t *testing.T) {
	var l lines
	for d := range int64(9) {
		l = append(l, [2]int64{2 * d * aDay, 2*d*aDay + aDay})
	}
	s := l.stretches()
	text := fmt.Sprint(s.Warnings())
	if !strings.Contains(text, "8d in all: 2026-03-03 00:00 to 2026-03-04 00:00") || !strings.Contains(text, "and 5 more") {
		t.Error(text)
	}
}
