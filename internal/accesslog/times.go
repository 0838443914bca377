package accesslog

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// scale is the unit of a number, as the power of ten that turns it into microseconds.
type scale int

const (
	byMagnitude scale = 99 // no unit: see scaleOfSize
	seconds     scale = 6
	millis      scale = 3
	micros      scale = 0
	nanos       scale = -3
)

// units are the suffixes of field names that name a unit.
var units = []struct {
	suffix string
	scale  scale
}{
	{"_ns", nanos},
	{"_us", micros},
	{"_ms", millis},
	{"_s", seconds},
}

// scaleOf returns the unit in the suffix of a field's name.
func scaleOf(field string) scale {
	for _, u := range units {
		if strings.HasSuffix(field, u.suffix) {
			return u.scale
		}
	}
	return byMagnitude
}

// scaleOfSize returns the unit of a time by its digits before the point: below 1e11
// seconds, below 1e14 milliseconds, below 1e17 microseconds, else nanoseconds. So every
// instant from 1974 on is read in the unit in which it was written.
func scaleOfSize(digits int) scale {
	switch {
	case digits <= 11:
		return seconds
	case digits <= 14:
		return millis
	case digits <= 17:
		return micros
	}

	return nanos
}

var (
	errInstant = errors.New("outside the years 1899 to 2112")
	errZone    = errors.New("no zone: name it with --time-zone, such as --time-zone UTC")
)

func checkInstant(us int64) error {
	if us < -1<<51 || us > 1<<52 {
		return errInstant
	}
	return nil
}

// parseTime reads RFC 3339, also with a space instead of the T, or a decimal number,
// and floors it to microseconds.
func parseTime(text string, unit scale) (int64, error) {
	us, err := parseNumber(text, unit)
	if errors.Is(err, errNumber) {
		us, err = parseStamp(text)
	}
	if err == nil {
		err = checkInstant(us)
	}
	if err != nil {
		return 0, fmt.Errorf("time %s: %w", printable([]byte(text), maxText), err)
	}

	return us, nil
}

func parseStamp(text string) (int64, error) {
	if len(text) > 10 && (text[10] == ' ' || text[10] == 't') {
		text = text[:10] + "T" + text[11:]
	}
	if rest, zulu := strings.CutSuffix(text, "z"); zulu {
		text = rest + "Z" // RFC 3339 section 5.6 allows a lower-case t and z
	}

	t, err := time.Parse(time.RFC3339Nano, text)
	if err == nil {
		return t.UnixMicro(), nil
	}
	if _, err := time.Parse("2006-01-02T15:04:05.999999999", text); err == nil {
		return 0, errZone
	}

	return 0, errors.New("neither RFC 3339 nor a number: name its form by --time-format")
}

var errNumber = errors.New("not a number")

// decimal is a number as written.
type decimal struct {
	negative bool
	digits   uint64 // up to 19 digits
	exponent int    // of ten
	inexact  bool   // digits other than 0 did not fit
	whole    int    // number of digits before the point
}

// parseNumber turns a decimal number of a unit into microseconds. It is exact: a float
// would lose the last digits of nanoseconds.
func parseNumber(text string, unit scale) (int64, error) {
	d, ok := parseDecimal(text)
	if !ok {
		return 0, errNumber
	}
	if unit == byMagnitude {
		unit = scaleOfSize(d.whole)
	}

	us := d.digits
	remainder := d.inexact // digits below a microsecond that are not 0

	// The bound keeps us*10 within 64 bits; every instant that checkInstant accepts is
	// below it.
	exponent := d.exponent + int(unit)
	for ; exponent > 0 && us != 0; exponent-- {
		if us > 1<<53 {
			return 0, errInstant
		}
		us *= 10
	}
	for ; exponent < 0 && us != 0; exponent++ {
		remainder = remainder || us%10 != 0
		us /= 10
	}
	if us > 1<<53 {
		return 0, errInstant
	}

	if !d.negative {
		return int64(us), nil
	}

	// The floor of a negative number is one further from 0 if there is a remainder.
	if remainder {
		us++
	}
	return -int64(us), nil
}

func parseDecimal(s string) (d decimal, ok bool) {
	if rest, found := strings.CutPrefix(s, "-"); found {
		d.negative, s = true, rest
	}

	mantissa, power, hasPower := cutPower(s)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole == "" || strings.HasSuffix(mantissa, ".") {
		return d, false
	}
	if !d.take(whole, 0) || !d.take(fraction, -1) {
		return d, false
	}

	d.whole = len(strings.TrimLeft(whole, "0"))
	if !hasPower {
		return d, true
	}

	// The unit depends on the size of the value, so 1.5e9 has ten digits and 0.0015e12, too.
	p, ok := parsePower(power)
	d.exponent += p
	if zeros := len(fraction) - len(strings.TrimLeft(fraction, "0")); d.whole == 0 && p > 0 {
		d.whole = max(0, p-zeros)
	} else {
		d.whole = max(0, d.whole+p)
	}

	return d, ok
}

// take appends digits. Each digit moves the exponent by step: 0 before the point, -1
// behind it. A digit that does not fit is left out and moves the exponent by one more.
func (d *decimal) take(digits string, step int) bool {
	for i := range len(digits) {
		c := digits[i] - '0'
		if c > 9 {
			return false
		}

		if d.digits >= 1e18 {
			d.inexact = d.inexact || c != 0
			d.exponent += step + 1
			continue
		}

		d.digits = d.digits*10 + uint64(c)
		d.exponent += step
	}

	return true
}

func cutPower(s string) (mantissa, power string, found bool) {
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// parsePower reads an exponent of at most three digits besides leading zeros: no time
// has a larger one.
func parsePower(s string) (int, bool) {
	negative := strings.HasPrefix(s, "-")

	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	if s == "" {
		return 0, false
	}
	if s = strings.TrimLeft(s, "0"); len(s) > 3 {
		return 0, false
	}

	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}

	if negative {
		return -n, true
	}
	return n, true
}
