package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

const shortFormHint = "write name:REQUESTS/WINDOW[:burst=N][:OPTION...], such as fixed_window:60/1m, token_bucket:60/1m:burst=20 " +
	"or sliding_window_counter:60/1m:phase=first:count_denied"

// parseSide reads the short form of a limiter: name:REQUESTS/WINDOW[:burst=N][:OPTION...].
func parseSide(flag, s string) (algorithms.Side, error) {
	side, err := splitSide(s)
	if err == nil {
		err = side.Algorithm.Validate(side.Limit)
	}
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "algorithms: ")
		if _, why, refused := strings.Cut(text, algorithms.ErrLimit.Error()+": "); refused {
			text = why
		}
		return side, usagef(shortFormHint, "--%s %s: %s", flag, s, text)
	}

	// Two sides with equal ids would share their state.
	side.ID = flag
	return side, nil
}

// algorithmNames lists every algorithm for the help, in lines of at most 80 columns.
func algorithmNames() string {
	text, line := "", "Limiters: "

	for i, a := range algorithms.All {
		if i > 0 {
			line += ", "
		}
		if len(line)+len(a.Name()) > 80 {
			text += strings.TrimRight(line, " ") + "\n"
			line = ""
		}
		line += a.Name()
	}

	return text + line
}

func splitSide(s string) (side algorithms.Side, err error) {
	name, rest, _ := strings.Cut(s, ":")
	if side.Algorithm, err = algorithms.ByName(name); err != nil {
		return side, err
	}
	side.Algorithm = algorithms.Unbounded(side.Algorithm)

	budget, options, hasOptions := strings.Cut(rest, ":")
	requests, window, found := strings.Cut(budget, "/")
	if !found {
		return side, errors.New("no REQUESTS/WINDOW")
	}
	if side.Limit.Requests, err = parseCount("requests", requests, 0); err != nil {
		return side, err
	}
	if side.Limit.Window, side.Limit.Calendar, err = algorithms.ParsePeriod(window); err != nil {
		return side, err
	}
	if !hasOptions {
		return side, nil
	}

	given := map[string]bool{}
	for _, option := range strings.Split(options, ":") {
		name, value, _ := strings.Cut(option, "=")
		if given[name] {
			return side, fmt.Errorf("%s is given twice", name)
		}
		given[name] = true

		if err = parseOption(&side.Limit, name, value); err != nil {
			return side, err
		}
	}
	return side, nil
}

// parseOption reads what stands behind a colon: a burst or an option of the algorithm.
func parseOption(l *algorithms.Limit, name, value string) (err error) {
	switch {
	case name == "burst":
		l.Burst, err = parseCount("burst", value, 1)
	case name == "phase":
		l.Phase, err = algorithms.ParsePhase(value)
	case name == "count_denied" && value == "":
		l.CountDenied = true
	case name == "refill":
		l.Refill, err = parseLength(name, value)
	case name == "forget":
		l.Forget, err = parseLength(name, value)

	// The error lists all options: a short form is typed, and has no completion.
	default:
		return fmt.Errorf("%q is not burst=N or an option (phase=epoch, first or hash; count_denied; refill=1s; forget=11s)",
			strings.TrimSuffix(name+"="+value, "="))
	}
	return err
}

// parseLength reads a duration above 0.
func parseLength(name, value string) (time.Duration, error) {
	length, err := algorithms.ParseWindow(value)
	if err == nil && length <= 0 {
		err = errors.New("must be at least 1us")
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "algorithms: "))
	}
	return length, nil
}

// parseCount reads a whole number from least on.
func parseCount(what, s string, least int64) (int64, error) {
	// A number of digits alone that does not parse is too large; "9e9" is no number to this form.
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil && strings.Trim(s, "0123456789") == "" && s != "":
		return 0, fmt.Errorf("%s %s is too large", what, s)
	case err != nil:
		return 0, fmt.Errorf("%s %q is not a whole number", what, s)
	case n < least:
		return 0, fmt.Errorf("%s must be at least %d", what, least)
	}
	return n, nil
}
