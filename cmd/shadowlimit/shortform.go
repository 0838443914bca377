package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

const shortFormHint = "write name:REQUESTS/WINDOW[:burst=N], such as fixed_window:60/1m or token_bucket:60/1m:burst=20"

// noLimit is the authoritative of --from where there is no limit today.
const noLimit = "none"

// parseSide reads the short form of a limiter: name:REQUESTS/WINDOW[:burst=N]. For an authoritative that is none it returns
// no side.
func parseSide(flag, s string) (algorithms.Side, error) {
	switch {
	case s == noLimit && flag == "from":
		return algorithms.Side{}, nil
	case s == noLimit:
		return algorithms.Side{}, usagef(shortFormHint, "--%s none: only today's limiter, of --from, can be none", flag)
	}

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

// algorithmNames lists every algorithm for the help, in lines that fit below a command.
func algorithmNames() string {
	text, line := "", "Limiters: "

	for i, a := range algorithms.All {
		if i > 0 {
			line += ", "
		}
		if len(line)+len(a.Name()) > 75 {
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

	budget, burst, hasBurst := strings.Cut(rest, ":")
	requests, window, found := strings.Cut(budget, "/")
	if !found {
		return side, errors.New("no REQUESTS/WINDOW")
	}
	if side.Limit.Requests, err = parseCount("requests", requests, 0); err != nil {
		return side, err
	}
	if side.Limit.Window, err = algorithms.ParseWindow(window); err != nil || !hasBurst {
		return side, err
	}

	count, found := strings.CutPrefix(burst, "burst=")
	if !found {
		return side, fmt.Errorf("%q is not burst=N", burst)
	}
	side.Limit.Burst, err = parseCount("burst", count, 1)
	return side, err
}

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
