package accesslog

import (
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	tests := []struct {
		give  string
		field string
		want  int64
	}{
		{"0", "time", 0},
		{"1517336154.078555", "ts", 1517336154078555},
		{"1517336154.0785559", "ts", 1517336154078555},
		{"4000000000", "time", 4000000000 * 1e6},
		{"100000000000", "time", 100000000000 * 1e3}, // the first of milliseconds
		{"1700158546680", "time", 1700158546680 * 1e3},
		{"100000000000000", "time", 100000000000000}, // the first of microseconds
		{"1700158546680590", "time", 1700158546680590},
		{"100000000000000000", "time", 100000000000000}, // the first of nanoseconds
		{"1700158546680590999", "time", 1700158546680590},
		{"1700158546680590999.9", "time", 1700158546680590},
		{"-1.5", "t_us", -2},
		{"-1.0000000000000000000000001", "t_us", -2},
		{"-1000", "t_ns", -1},
		{"-1001", "t_ns", -2},
		{"5", "t_us", 5}, {"5", "t_ms", 5000}, {"5", "t_s", 5e6}, {"5999", "t_ns", 5},
		{"1.5e9", "time", 1500000000 * 1e6},
		{"15e8", "time", 1500000000 * 1e6},
		{"0.0015e12", "time", 1500000000 * 1e6},
		{"1700158546680590E-6", "time", 1700158546680590},
		{"1.5e+0009", "time", 1500000000 * 1e6},
		{"15e000", "t_us", 15},
		{"2023-11-16t18:15:46.68059z", "time", 1700158546680590},
		{"2023-11-16T18:15:46.6805909Z", "time", 1700158546680590},
		{"2023-11-16 18:15:46.6805909+00:00", "time", 1700158546680590},
		{"1969-12-31T23:59:59.9999999Z", "time", -1},
	}

	for _, tt := range tests {
		got, err := parseTime(tt.give, scaleOf(tt.field))
		if err != nil || got != tt.want {
			t.Errorf("%s in %s is %d (%v), want %d", tt.give, tt.field, got, err, tt.want)
		}
	}

	for _, bad := range []string{
		"", "x", ".", "1.", ".5", "+1", "1e", "1e9999", "1e+", "1e1000", "0x10", "NaN", "Inf", "1_000", " 1", "--1",
		"2023-11-16", "2023-11-16T18:15:46", "1e300", "99999999999999999999999999",
		"99999999999", // the last of seconds, in 5138: out of range
	} {
		if got, err := parseTime(bad, byMagnitude); err == nil {
			t.Errorf("%q is %d, want an error", bad, got)
		}
	}

	if _, err := parseTime("2023-11-16 18:15:46.6805900", byMagnitude); err == nil || !strings.Contains(err.Error(), "no zone") {
		t.Errorf("a time without zone: %v, want an error that names the zone", err)
	}
}

// FuzzNumber compares parseNumber with rational numbers.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{
		"1517336154.0785559", "-1.5", "1e9", "0.00000000000000000000001", "1700158546680590999",
		"12345678901234567890123", "-0.0000001", "100e-2",
	} {
		f.Add(s, uint8(2))
	}

	units := []scale{seconds, millis, micros, nanos}
	f.Fuzz(func(t *testing.T, s string, u uint8) {
		unit := units[int(u)%len(units)]
		got, err := parseNumber(s, unit)
		if err == errNumber || len(s) > 60 {
			return
		}

		want, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("%q is read as %d, %v and is no number", s, got, err)
		}

		power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(unit, -unit))), nil))
		if unit < 0 {
			want.Quo(want, power)
		} else {
			want.Mul(want, power)
		}

		floor := new(big.Int).Div(want.Num(), want.Denom())
		if err != nil {
			if floor.CmpAbs(big.NewInt(1<<53)) < 0 {
				t.Errorf("%q is %s us and refused: %v", s, floor, err)
			}
			return
		}

		if floor.Cmp(big.NewInt(got)) != 0 {
			t.Errorf("%q is read as %d us, is %s", s, got, floor)
		}
	})
}

// FuzzStamp compares the times of common logs with time.Parse. time.Parse is laxer: it
// accepts an hour of one digit and more spaces, which no server writes.
func FuzzStamp(f *testing.F) {
	f.Add("10/Oct/2000:13:55:36 -0700")
	f.Add("29/Feb/2015:13:55:36 +0000")
	f.Add("01/Jan/1970:00:00:00 +2359")

	var s stamps
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) != stampLength {
			return
		}

		const layout = "02/Jan/2006:15:04:05 -0700"
		got, err := s.parse([]byte(text))

		want, wantErr := time.Parse(layout, text)
		if err == nil && (wantErr != nil || got != want.UnixMicro()) {
			t.Errorf("%q is read as %d; time.Parse has %v, %v", text, got, want, wantErr)
		}

		asWritten := wantErr == nil && strings.EqualFold(want.Format(layout), text)
		if err != nil && asWritten && checkInstant(want.UnixMicro()) == nil {
			t.Errorf("%q is refused: %v; time.Parse has %v", text, err, want)
		}
	})
}

// TestStamps reads each stamp after others, whose remembered day must not leak into it.
func TestStamps(t *testing.T) {
	tests := []struct {
		give string
		want string // RFC 3339, "" if it is refused
	}{
		{"10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z"},
		{"10/Oct/2000:13:55:36 +0330", "2000-10-10T10:25:36Z"},
		{"11/Oct/2000:13:55:36 +0330", "2000-10-11T10:25:36Z"},
		{"29/Feb/1900:00:00:00 +0330", ""},
		{"11/Oct/2000:23:59:59 +0330", "2000-10-11T20:29:59Z"},
		{"11/Oct/2000:24:00:00 +0330", ""},
		{"11/Oct/2000:00:60:00 +0330", ""},
		{"11/Oct/2000:00:00:60 +0330", ""},
		{"11/Oct/2000:0a:00:00 +0330", ""},
		{"11/Oct/2000:00:00:00 +0361", ""},
		{"11/Oct/2000:00:00:00 +2500", ""},
		{"11/Oct/2000:00:00:00Z+0330", ""},
		{"31/Apr/2000:00:00:00 +0000", ""},
		{"00/Apr/2000:00:00:00 +0000", ""},
		{"29/Feb/2000:00:00:00 +0000", "2000-02-29T00:00:00Z"},
		{"01/Jan/1890:00:00:00 +0000", ""},
		{"01/Jan/2113:00:00:00 +0000", ""},
	}

	var s stamps
	for _, tt := range tests {
		var got string
		if at, err := s.parse([]byte(tt.give)); err == nil {
			got = time.UnixMicro(at).UTC().Format(time.RFC3339Nano)
		}
		if got != tt.want {
			t.Errorf("%s is read as %q, want %q", tt.give, got, tt.want)
		}
	}
}

// TestInstants tests both ends of the range to the microsecond.
func TestInstants(t *testing.T) {
	for _, text := range []string{"-2251799813685248", "4503599627370496"} {
		if _, err := parseTime(text, micros); err != nil {
			t.Errorf("%s us: %v, want it in range", text, err)
		}
	}

	for _, text := range []string{"-2251799813685249", "-2251799813685248.1", "4503599627370497"} {
		if got, err := parseTime(text, micros); err == nil {
			t.Errorf("%s us is read as %d, want it out of range", text, got)
		}
	}
}
