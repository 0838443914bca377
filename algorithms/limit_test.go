package algorithms_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func TestValidateNamesTheNumberToChange(t *testing.T) {
	const day = 24 * time.Hour
	limit := func(requests int64, window time.Duration) algorithms.Limit {
		return algorithms.Limit{Requests: requests, Window: window}
	}
	withBurst := func(requests int64, window time.Duration, burst int64) algorithms.Limit {
		return algorithms.Limit{Requests: requests, Window: window, Burst: burst}
	}

	tests := []struct {
		give  algorithms.Limit
		want  string // in the message; "" for no error
		which string // the algorithm's name
	}{
		{withBurst(-1, time.Second, 1), "requests must not be negative", "gcra"},
		{limit(-1, time.Second), "requests must not be negative", "fixed_window"},
		{algorithms.Limit{}, "window must be at least 1us", "fixed_window"}, // stands for a limit that is not known
		{withBurst(0, time.Second, 1), "", "gcra"},
		{limit(0, time.Second), "", "leaky_bucket"},
		{limit(1<<53, time.Second), "requests must be below 2^53", "fixed_window"},
		{limit(1<<53-1, time.Second), "", "fixed_window"},
		{limit(1, 0), "window must be at least 1us", "sliding_window_log"},
		{limit(1, -time.Second), "window must be at least 1us", "sliding_window_log"},
		{limit(1, 999*time.Nanosecond), "at least 1us", "fixed_window"},
		{limit(1, 1500*time.Nanosecond), "whole number of microseconds", "fixed_window"},
		{limit(1, 14000*day), "window must be at most 13031d", "fixed_window"},
		{withBurst(1, time.Second, 2), "burst belongs to buckets", "fixed_window"},
		{withBurst(1, time.Second, 2), "burst belongs to buckets", "sliding_window_counter"},
		{withBurst(1, time.Second, -2), "burst must be at least 1", "token_bucket"},
		{limit(1, time.Second), "burst is missing", "leaky_bucket"},
		{limit(1, time.Second), "", "token_bucket"},
		{limit(999_983, day), "too fine to be exact", "gcra"},
		{limit(1_000_000, day), "", "gcra"},
		{withBurst(9973, day, 200_000), "lower burst to at most 104249", "token_bucket"},
		{withBurst(9973, day, 104_249), "", "token_bucket"},
		{withBurst(1, 365*day, 100), "drain for over 35 years: lower burst to at most 35", "gcra"},
		{withBurst(1, 365*day, 35), "", "gcra"},
		{limit(2_501_999, time.Hour), "", "sliding_window_counter"},
		{limit(2_502_000, time.Hour), "", "sliding_window_counter"}, // in milliseconds
		{limit(3_000_000_000, time.Hour), "lower requests to at most 2501999792", "sliding_window_counter"},
		{limit(3_000_000, time.Hour+time.Microsecond), "whole number of milliseconds", "sliding_window_counter"},
	}

	for _, tt := range tests {
		a, err := algorithms.ByName(tt.which)
		if err != nil {
			t.Fatal(err)
		}

		switch err := a.Validate(tt.give); {
		case tt.want == "" && err != nil:
			t.Errorf("%s %s: %v, want no error", tt.which, tt.give, err)
		case tt.want != "" && !errors.Is(err, algorithms.ErrLimit),
			tt.want != "" && !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s %s: %v, want ErrLimit with %q", tt.which, tt.give, err, tt.want)
		}
	}
}

func TestParseWindow(t *testing.T) {
	tests := []struct {
		give string
		want time.Duration // 0: an error
	}{
		{"1m", time.Minute}, {"60s", time.Minute}, {"250ms", 250 * time.Millisecond}, {"10us", 10 * time.Microsecond},
		{"1h30m", 90 * time.Minute}, {"7d", 7 * 24 * time.Hour}, {"1d12h", 36 * time.Hour},
		{"", 0}, {"m", 0}, {"1", 0}, {"1.5m", 0}, {"-1m", 0}, {"1 m", 0}, {"1M", 0}, {"1ns", 0}, {"1y", 0},
		{"99999999999999999999m", 0}, {"9223372036854775807d", 0}, {"106751d106751d", 0},
	}

	for _, tt := range tests {
		got, err := algorithms.ParseWindow(tt.give)
		if got != tt.want || (err == nil) != (tt.want != 0) {
			t.Errorf("ParseWindow(%q) = %s, %v, want %s", tt.give, got, err, tt.want)
		}
	}
}

func TestLimitPrintsAsItIsWritten(t *testing.T) {
	tests := []struct {
		give algorithms.Limit
		want string
	}{
		{algorithms.Limit{Requests: 60, Window: time.Minute, Burst: 20}, "60/1m:burst=20"},
		{algorithms.Limit{Requests: 5, Window: 90 * time.Second}, "5/90s"},
		{algorithms.Limit{Requests: 5, Window: 48 * time.Hour}, "5/2d"},
		{algorithms.Limit{Requests: 5}, "5/0s"},
	}

	for _, tt := range tests {
		if got := tt.give.String(); got != tt.want {
			t.Errorf("%#v prints %q, want %q", tt.give, got, tt.want)
		}
	}
}

func FuzzParseWindow(f *testing.F) {
	for _, s := range []string{"1m", "1h30m", "", "1", "99999999999999999999d", "10us"} {
		f.Add(s)
	}

	f.Fuzz(func(t *testing.T, s string) {
		d, err := algorithms.ParseWindow(s)
		if err != nil {
			return
		}

		written := algorithms.FormatWindow(d)
		if again, err := algorithms.ParseWindow(written); d != 0 && (err != nil || again != d) {
			t.Errorf("%q is %s, which prints as %q and reads as %s, %v", s, d, written, again, err)
		}
	})
}
