package gate

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// minutesOf makes minutes, the last one at 1000, with these counts in each.
func minutesOf(n int, allows, newlyDenied, keys int64) []evidence.Minute {
	list := make([]evidence.Minute, n)
	for i := range list {
		m := &list[i]
		m.Unix = int64(1000 - n + 1 + i)
		m.Tally[evidence.AgreeAllow] = allows
		for k := range newlyDenied {
			m.Count(evidence.NewlyDenied, uint64(k%keys))
		}
	}
	return list
}

func TestRawRatioAlarm(t *testing.T) {
	tests := []struct {
		name    string
		minutes []evidence.Minute
		want    Level
	}{
		{"nothing", nil, Calm},
		{"all is well", minutesOf(15, 100, 1, 1), Calm},
		{"at the cap with a block's requests", minutesOf(15, 90, 10, 3), Hold},
		{"at the cap with too few requests", minutesOf(2, 90, 10, 3), Calm},
		{"at the cap from two keys", minutesOf(15, 90, 10, 2), Calm},
		{"twenty times the threshold", minutesOf(1, 36, 24, 3), RollBack},
		{"twenty times the threshold with too few requests", minutesOf(1, 18, 12, 3), Calm},
		{"twenty times the threshold from two keys", minutesOf(15, 36, 24, 2), Calm},
		{"long ago", minutesOf(40, 36, 24, 3)[:25], Calm},
	}

	for _, tt := range tests {
		got := rawAlarm(tt.minutes)
		if got.Level != tt.want || (got.Reason == "") != (tt.want == Calm) {
			t.Errorf("%s: %+v, want level %d", tt.name, got, tt.want)
		}
	}
}

// rawAlarm asks the raw ratios alone, in minute 1000.
func rawAlarm(minutes []evidence.Minute) Alarm {
	return windowOf(Config{}.WithDefaults(), Recent{Minutes: minutes, Now: time.Unix(60*1000, 0)}).rawRatios()
}

// What came every night while the candidate was in shadow is no alarm in its first night. Three times as much is.
func TestUsualHoursAreNoRawAlarm(t *testing.T) {
	const night, enforced = 60, 4 * minutesADay // minutes a night, and before the stage
	alarmed := func(share int64) Level {
		var minutes []evidence.Minute
		for at := range int64(enforced + night) {
			m := evidence.Minute{Unix: at}
			denied := int64(0)
			if at%minutesADay < night {
				denied = 12
				if at >= enforced {
					denied = share
				}
			}
			m.Tally[evidence.AgreeAllow] = 100 - denied
			for k := range denied {
				m.Count(evidence.NewlyDenied, uint64(k))
			}
			minutes = append(minutes, m)
		}
		return Alarms(Config{}.WithDefaults(), Recent{
			Minutes: minutes, StageAt: time.Unix(60*enforced, 0), Now: time.Unix(60*(enforced+night), 0),
		}).Level
	}
	if got := alarmed(12); got != Calm {
		t.Errorf("as every night: level %d", got)
	}
	if got := alarmed(50); got != RollBack {
		t.Errorf("half of the requests: level %d, want %d", got, RollBack)
	}
}

// No raw guard acts below the threshold, however high that is, and what is usual is known where few requests are denied.
func TestRawGuardOfAHighThreshold(t *testing.T) {
	for p0, want := range map[float64]Level{0.5: RollBack, 0.9: Calm, 0.95: Calm} {
		minutes := minutesOf(15, 0, 0, 1)
		for i := range minutes {
			minutes[i].Tally[evidence.AgreeDeny] = 3
			for k := range uint64(37) {
				minutes[i].Count(evidence.NewlyAllowed, k)
			}
		}
		w := windowOf(Config{NewlyAllowed: p0, Divergence: 0.99, ExtraLoad: 0.99}.WithDefaults(), Recent{Minutes: minutes, Now: time.Unix(60*1000, 0)})
		if got := w.rawRatios(); got.Level != want {
			t.Errorf("92.5 %% at a threshold of %g: %+v, want level %d", p0, got, want)
		}
	}
}
