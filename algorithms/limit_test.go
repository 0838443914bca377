package algorithms_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func TestValidateNamesTheNumberToChange(t *testing.T) {
	day := 24 * time.Hour
	tests := []struct {
		give  algorithms.Limit
		want  string // part of the message, "" for none
		which string // algorithms, "" for all
	}{
		{algorithms.Limit{Requests: 0, Window: time.Second, Burst: 1}, "requests must be at least 1", "gcra"},
		{algorithms.Limit{Requests: -1, Window: time.Second}, "requests must be at least 1", "fixed_window"},
		{algorithms.Limit{Requests: 1 << 53, Window: time.Second}, "requests must be below 2^53", "fixed_window"},
		{algorithms.Limit{Requests: 1<<53 - 1, Window: time.Second}, "", "fixed_window"},
		{algorithms.Limit{Requests: 1, Window: 0}, "window must be at least 1us", "sliding_window_log"},
		{algorithms.Limit{Requests: 1, Window: -time.Second}, "window must be at least 1us", "sliding_window_log"},
		{algorithms.Limit{Requests: 1, Window: 999 * time.Nanosecond}, "at least 1us", "fixed_window"},
		{algorithms.Limit{Requests: 1, Window: 1500 * time.Nanosecond}, "whole number of microseconds", "fixed_window"},
		{algorithms.Limit{Requests: 1, Window: 14000 * day}, "window must be at most 13031d", "fixed_window"},
		{algorithms.Limit{Requests: 1, Window: time.Second, Burst: 2}, "burst belongs to buckets", "fixed_window"},
		{algorithms.Limit{Requests: 1, Window: time.Second, Burst: 2}, "burst belongs to buckets", "sliding_window_counter"},
		{algorithms.Limit{Requests: 1, Window: time.Second, Burst: -2}, "burst must be at least 1", "token_bucket"},
		{algorithms.Limit{Requests: 1, Window: time.Second}, "burst is missing", "leaky_bucket"},
		{algorithms.Limit{Requests: 1, Window: time.Second}, "", "token_bucket"},
		{algorithms.Limit{Requests: 999_983, Window: day}, "too fine to be exact", "gcra"},
		{algorithms.Limit{Requests: 1_000_000, Window: day}, "", "gcra"},
		{algorithms.Limit{Requests: 9973, Window: day, Burst: 200_000}, "lower burst to at most 104249", "token_bucket"},
		{algorithms.Limit{Requests: 9973, Window: day, Burst: 104_249}, "", "token_bucket"},
		{algorithms.Limit{Requests: 1, Window: 365 * day, Burst: 100}, "drain for over 35 years: lower burst to at most 35", "gcra"},
		{algorithms.Limit{Requests: 1, Window: 365 * day, Burst: 35}, "", "gcra"},
		{algorithms.Limit{Requests: 2_501_999, Window: time.Hour}, "", "sliding_window_counter"},
		{algorithms.Limit{Requests: 2_502_000, Window: time.Hour}, "", "sliding_window_counter"}, // in milliseconds
		{algorithms.Limit{Requests: 3_000_000_000, Window: time.Hour}, "lower requests to at most 2501999792", "sliding_window_counter"},
		{algorithms.Limit{Requests: 3_000_000, Window: time.Hour + time.Microsecond}, "whole number of milliseconds", "sliding_window_counter"},
	}
	for _, tt := range tests {
		a, err := algorithms.ByName(tt.which)
		if err != nil {
			t.Fatal(err)
		}
		switch err := a.Validate(tt.give); {
		case tt.want == "" && err != nil:
			t.Errorf("%s %s: %v, want no error", tt.which, tt.give, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, algorithms.ErrLimit)):
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
		if again, err := algorithms.ParseWindow(algorithms.FormatWindow(d)); d != 0 && (err != nil || again != d) {
			t.Errorf("%q is %s, which prints as %q and reads as %s, %v", s, d, algorithms.FormatWindow(d), again, err)
		}
	})
}
