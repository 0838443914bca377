package retry

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// date is the Date of the responses of this test: far from this machine's clock, which must not count.
var date = time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)

func TestToldBySafeReading(t *testing.T) {
	in := func(d time.Duration) time.Time { return date.Add(d) }
	unix := func(d time.Duration) string { return strconv.FormatInt(in(d).Unix(), 10) }
	long := strings.Repeat("9", 10<<20)

	for _, tt := range []struct {
		fields string // name: value, one a line
		told   time.Duration
	}{
		{"", 0},
		// Retry-After.
		{"Retry-After: 0", 0},
		{"Retry-After: 30", 30 * time.Second},
		{"Retry-After:  30 ", 30 * time.Second},
		{"Retry-After: 1.5", 1500 * time.Millisecond},
		{"Retry-After: 1.0000000001", time.Second + 1},
		{"Retry-After: " + in(7*time.Second).Format(http.TimeFormat), 7 * time.Second},
		{"Retry-After: " + in(7*time.Second).Format("Monday, 02-Jan-06 15:04:05 GMT"), 7 * time.Second},
		{"Retry-After: " + in(7*time.Second).Format(time.ANSIC), 7 * time.Second},
		{"Retry-After: " + in(-time.Hour).Format(http.TimeFormat), 0},
		{"Retry-After: 3\nRetry-After: 5\nRetry-After: x", 5 * time.Second},
		// Retry-After goes first, unless it cannot be read.
		{"Retry-After: 3\nRateLimit: \"a\";r=0;t=9", 3 * time.Second},
		{"Retry-After: soon\nRateLimit: \"a\";r=0;t=9", 9 * time.Second},
		// RateLimit as a list.
		{`RateLimit: "default";r=0;t=30`, 30 * time.Second},
		{`RateLimit: default;r=0;t=30`, 30 * time.Second},
		{`RateLimit: "a";r=5;t=90, "b";r=0;t=30, "c";r=0;t=20`, 30 * time.Second},
		{"RateLimit: \"a\";r=5;t=90\nRateLimit: \"b\";r=0;t=30", 30 * time.Second},
		{`RateLimit: "a,b;r=1;t=99\"";pk=:YQ==:;r=0;t=30;x`, 30 * time.Second},
		{`RateLimit: "cost of ten";r=5;t=12`, 12 * time.Second},
		{`RateLimit: "never";r=0`, 0},
		// RateLimit as a dictionary.
		{`RateLimit: limit=100, remaining=0, reset=5`, 5 * time.Second},
		{`RateLimit: limit=100,reset=5`, 5 * time.Second},
		// One field each.
		{"RateLimit-Limit: 9\nRateLimit-Remaining: 0\nRateLimit-Reset: 6", 6 * time.Second},
		{"X-RateLimit-Reset: 6", 6 * time.Second},
		{"X-RateLimit-Remaining: 0.0\nX-RateLimit-Reset: 6.25", 6250 * time.Millisecond},
		{"X-RateLimit-Reset: 315359999", 315359999 * time.Second},
		{"x-ratelimit-reset: " + unix(40*time.Second), 40 * time.Second},
		{"x-rate-limit-reset: " + unix(40*time.Second), 40 * time.Second},
		{"X-RateLimit-Reset: " + unix(40*time.Second) + "000", 40*time.Second + time.Millisecond},
		{"X-RateLimit-Reset: " + unix(-40*time.Second), 0},
		{"X-RateLimit-Reset: " + in(40*time.Second).Format(time.RFC3339), 40 * time.Second},
		{"X-RateLimit-Reset: " + in(51*time.Second).Format("2006-01-02T15:04Z"), 51 * time.Second},
		// What no server means, and what a hostile one may send.
		{"Retry-After: -5", 0},
		{"Retry-After: NaN", 0},
		{"Retry-After: Inf", 0},
		{"Retry-After: 1e9", 0},
		{"Retry-After: 0x10", 0},
		{"Retry-After: .", 0},
		{"Retry-After: .5", 0},
		{"Retry-After: 1.2.3", 0},
		{"Retry-After: 9223372035", 9223372035 * time.Second},
		{"Retry-After: 9223372036", far},
		{"Retry-After: " + long, far},
		{"Retry-After: " + strings.Repeat("0", 10<<20), far},
		{"Retry-After: " + strings.Repeat("x", 10<<20), 0},
		{"X-RateLimit-Reset: " + long, far},
		{"X-RateLimit-Reset: 300000000000", far},
		{`RateLimit: "a";r=0;t=` + long, far},
		{`RateLimit: "a";r=0;t=-1`, 0},
		{`RateLimit: ` + strings.Repeat(`"a";r=0;t=7,`, 1<<20), 7 * time.Second},
		{`RateLimit: "` + long, 0},
		{strings.Repeat("Retry-After: 2\n", 100000), 2 * time.Second},
	} {
		response := answer(429, "Date", date.Format(http.TimeFormat))
		for line := range strings.Lines(tt.fields) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			response.Header.Add(name, value)
		}
		if told, refused := refusal(response); told != tt.told || !refused {
			t.Errorf("%.120q: %s %t, want %s", tt.fields, told, refused, tt.told)
		}
	}
}

// Only answers that mean "later" are refusals.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		status  int
		fields  []string
		told    time.Duration
		refused bool
	}{
		{200, []string{"Retry-After", "5"}, 0, false},
		{301, []string{"Retry-After", "5"}, 0, false},
		{500, []string{"Retry-After", "5"}, 0, false},
		{429, nil, 0, true},
		{503, nil, 0, true},
		{503, []string{"Retry-After", "5"}, 5 * time.Second, true},
		{503, []string{"RateLimit", `"a";r=0;t=5`}, 5 * time.Second, true},
		{503, []string{"RateLimit", `"a";r=7;t=5`}, 0, true},

		// Most 403 are for good.
		{403, nil, 0, false},
		{403, []string{"Retry-After", "5"}, 0, false},
		{403, []string{"X-RateLimit-Remaining", "7", "X-RateLimit-Reset", "5"}, 0, false},
		{403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "5"}, 5 * time.Second, true},
		{403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "5", "Retry-After", "9"}, 9 * time.Second, true},
	} {
		if told, refused := refusal(answer(tt.status, tt.fields...)); told != tt.told || refused != tt.refused {
			t.Errorf("%d %q: %s %t, want %+v", tt.status, tt.fields, told, refused, tt)
		}
	}
}

// Without a Date, instants are compared with this machine's clock.
func TestInstantWithoutDate(t *testing.T) {
	response := answer(429, "Retry-After", time.Now().Add(time.Hour+time.Second).UTC().Format(http.TimeFormat))
	if told, _ := refusal(response); told < 59*time.Minute || told > time.Hour+time.Second {
		t.Errorf("told %s, want an hour", told)
	}
}
