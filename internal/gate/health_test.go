package gate

import (
	"strings"
	"testing"
	"time"
)

func TestHealth(t *testing.T) {
	cfg := Config{}.WithDefaults()
	tests := []struct {
		name         string
		failed, slow int64 // in each of the last ticks, of 200 requests
		ticks        int
		want         Level
		reason       string
	}{
		{"well", 0, 0, 90, Calm, ""},
		{"one in a hundred fails", 2, 0, 90, Calm, ""},
		{"four failures in a tick", 4, 0, 3, Calm, ""},
		{"fails for 20 s", 200, 0, 2, Calm, ""},
		{"fails for 30 s", 5, 0, 3, Hold, "for 30 s it did not answer 15 of 600 requests"},
		{"fails for two minutes", 200, 0, 12, Hold, "the candidate fails"},
		{"fails in each of three minutes, and not for three", 200, 0, 13, Hold, "the candidate fails"},
		{"fails for three minutes", 200, 0, 18, RollBack, "for 180 s it did not answer 3,600 of 3,600 requests"},
		{"slow for 20 s", 0, 3, 2, Calm, ""},
		{"slow for 30 s", 0, 3, 3, Hold, "the candidate is slow: for 30 s"},
		{"slow for three minutes", 0, 3, 18, RollBack, "the candidate is slow: for 180 s"},
	}

	for _, tt := range tests {
		w := window{cfg: cfg, ticks: failed(quietTicks(90, 200), tt.ticks, tt.failed, tt.slow), now: tickNow}
		got := w.triggers()
		if got.Level != tt.want || got.Health != (tt.want != Calm) || !strings.Contains(got.Reason, tt.reason) {
			t.Errorf("%s: %+v, want level %d, %q", tt.name, got, tt.want, tt.reason)
		}
	}
}

// An outage that is over is no illness, however it lies to the minutes: what is asked for after it is less than a rollback.
func TestOutageThatIsOver(t *testing.T) {
	for since := 4; since < 20; since++ {
		ticks := quietTicks(90, 200)
		failed(ticks[:90-since], 8, 200, 0)
		if got := (&window{cfg: Config{}.WithDefaults(), ticks: ticks, now: tickNow}).triggers(); got.Level == RollBack {
			t.Errorf("80 s of failures, %d s ago: %+v", since*10, got)
		}
	}
}

// A calm hour is one in which the health asked for nothing.
func TestWell(t *testing.T) {
	now := time.Unix(tickNow*10, 0)
	for _, tt := range []struct {
		ago  int // ticks since the last bad one
		bad  int
		want bool
	}{{0, 0, true}, {10, 3, false}, {357, 3, false}, {360, 3, true}, {10, 2, true}} {
		ticks := quietTicks(400, 200)
		failed(ticks[:400-tt.ago], tt.bad, 200, 0)
		if got := Well(Config{}.WithDefaults(), Recent{Ticks: ticks, Now: now}); got != tt.want {
			t.Errorf("%d bad ticks, %d ticks ago: well %t, want %t", tt.bad, tt.ago, got, tt.want)
		}
	}
}
