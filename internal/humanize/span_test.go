package humanize_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

func TestSpan(t *testing.T) {
	tests := []struct {
		give time.Duration
		want string
	}{
		{0, "0s"},
		{9 * time.Microsecond, "9µs"},
		{20 * time.Second, "20s"},
		{59 * time.Second, "59s"},
		{60 * time.Second, "1m"},
		{10 * time.Minute, "10m"},
		{3600 * time.Second, "1h"},
		{24 * time.Hour, "1d"},
		{24*time.Hour + time.Minute, "1d1m"},
		{25 * time.Hour, "1d1h"},
		{83*time.Hour + 59*time.Second, "3d11h59s"},
	}

	for _, tt := range tests {
		if got := humanize.Span(tt.give); got != tt.want {
			t.Errorf("Span(%d) = %q, want %q", tt.give, got, tt.want)
		}
	}
}
