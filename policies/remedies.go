package policies

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// unitSizes are the units that authors put behind a whole number. A small m is none: it may be a minute.
var unitSizes = map[string]int64{
	"k": 1e3, "K": 1e3, "kb": 1e3, "kB": 1e3, "KB": 1e3, "KiB": 1 << 10, "M": 1e6, "mb": 1e6, "MB": 1e6, "MiB": 1 << 20,
	"G": 1e9, "gb": 1e9, "GB": 1e9, "GiB": 1 << 30,
}

var (
	// numberWithUnit is such a number, also one with another word behind it. Nine digits times a unit are an int64.
	numberWithUnit = regexp.MustCompile(`^([0-9]{1,9}) ?([A-Za-z]{1,3})$`)
	// groupedNumber is a number whose digits stand in groups of three.
	groupedNumber = regexp.MustCompile(`^[0-9]{1,3}(?:[_,' ][0-9]{3})+$`)
	// shareOfNumber is a percentage in the place of a whole number.
	shareOfNumber = regexp.MustCompile(`^[0-9.]+ *%$`)
)

// numberOf says how a whole number is written that has a unit, a sign or groups of digits, "" for another text. A limit of 10k gets
// "write 10000", one of 1_000 "write 1000".
func numberOf(text string) string {
	switch m := numberWithUnit.FindStringSubmatch(text); {
	case m != nil && unitSizes[m[2]] > 0:
		count, _ := strconv.ParseInt(m[1], 10, 64) // nine digits
		return fmt.Sprintf("a number has no unit: write %d", count*unitSizes[m[2]])
	case m != nil:
		return "a number has no unit: write " + m[1]
	case groupedNumber.MatchString(text):
		return "a number has digits alone: write " + strings.Map(digitOrNone, text)
	case shareOfNumber.MatchString(text):
		return "want a whole number, such as 20, and no percentage"
	}
	return ""
}

// digitOrNone leaves digits as they are; for strings.Map, -1 drops any other character.
func digitOrNone(r rune) rune {
	if r >= '0' && r <= '9' {
		return r
	}
	return -1
}

// fractionOf writes a duration with a fraction, such as 1.5m, without one, as YAML's readers of durations take it. It is "" for
// another text.
func fractionOf(text string) string {
	// Package time knows no days. One with a fraction is a number of hours.
	if days, found := strings.CutSuffix(text, "d"); found {
		if v, err := strconv.ParseFloat(days, 64); err == nil && v < 1000 {
			text = strconv.FormatFloat(v*24, 'f', -1, 64) + "h"
		}
	}

	// A zero unit at the end says nothing. A duration that is no whole number of the smallest unit has no other form.
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return ""
	}

	// Package time writes an hour as 1h0m0s.
	whole := d.String()
	if strings.HasSuffix(whole, "m0s") {
		whole = strings.TrimSuffix(whole, "0s")
	}
	if strings.HasSuffix(whole, "h0m") {
		whole = strings.TrimSuffix(whole, "0m")
	}
	if _, err := algorithms.ParseWindow(whole); err != nil {
		return ""
	}
	return whole
}

// typeRemedies say how an expression of one type becomes one of another, by both; %s is the expression. A type with parameters has
// its name alone, but for an optional one, whose default depends on what it holds.
var typeRemedies = map[[2]string]string{
	{"optional_type(string)", "string"}: `write %s.orValue("none")`,
	{"optional_type(dyn)", "string"}:    `write %s.orValue("none")`,
	{"optional_type(int)", "string"}:    `write %s.orValue(0)`,
	{"optional_type(string)", "bool"}:   `write %s.orValue("") != ""`,
	{"optional_type(dyn)", "bool"}:      `write %s.orValue(false) == true`,
	{"optional_type(bool)", "bool"}:     `write %s.orValue(false)`,
	{"optional_type(int)", "int"}:       `write %s.orValue(100)`,
	{"optional_type(string)", "int"}:    `write int(%s.orValue("100"))`,
	{"optional_type(dyn)", "int"}:       `write int(%s.orValue(100))`,
	{"timestamp", "string"}:             "write a part of it, such as %s.getHours()",
	{"timestamp", "bool"}:               `write %s > timestamp("2026-01-31T12:00:00Z")`,
	{"timestamp", "int"}:                "write a part of it, such as %s.getHours()",
	{"string", "bool"}:                  `write %s != ""`,
	{"int", "bool"}:                     "write %s > 0",
	{"dyn", "bool"}:                     "write %s == true",
	{"dyn", "int"}:                      "write int(%s)",
	{"double", "int"}:                   "write int(%s)",
	{"double", "string"}:                "write string(%s)",
	{"bool", "int"}:                     "write %s ? 1 : 0, in quotes of YAML",
	{"map", "string"}:                   `name one of its entries: write %s[?"x-plan"].orValue("none")`,
	{"map", "bool"}:                     `name one of its entries: write ("x-plan" in %s)`,
	{"list", "string"}:                  "name one of its elements: write %s[0]",
	{"list", "bool"}:                    `write ("a" in %s)`,
}

// operand is an expression behind which another part can stand without parentheses: a name, and at most one index of a text, such as
// request.headers["x-plan"].
var operand = regexp.MustCompile(`^[\w.]+(?:\[\??(?:"[^"]*"|'[^']*')\])?$`)

// remedyOfType says how to make an expression one of the wanted type, "" where that is not known.
func remedyOfType(source string, got *cel.Type, want []*cel.Type) string {
	// The first of several types is the usual one: that of a key is a text.
	if len(want) == 0 {
		return ""
	}
	name := strings.TrimPrefix(got.String(), "google.protobuf.")
	if front, _, found := strings.Cut(name, "("); found && front != "optional_type" {
		name = front
	}
	remedy := typeRemedies[[2]string{strings.ToLower(name), want[0].String()}]

	// A long expression is not repeated.
	source = strings.TrimSpace(source)
	if !operand.MatchString(source) {
		source = "(...)"
	}
	if remedy == "" {
		return ""
	}
	return ": " + fmt.Sprintf(remedy, source)
}

// negatedName is a name behind the sign of negation.
var negatedName = regexp.MustCompile(`^! *([a-z]+(?:\.\w+)+(?:\[(?:"[^"]*"|'[^']*')\])?)`)

// tooLong is CEL's message of an expression of too many characters.
var tooLong = regexp.MustCompile(`^expression code point size exceeds limit: size: ([0-9]+), limit ([0-9]+)`)

// meantMessage words those messages of CEL whose remedy depends on the expression, "" for another. rest is the line from the place on.
func meantMessage(message, rest string) string {
	if m := tooLong.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("the expression has %s characters: at most %s: put lists into data, and parts into variables", m[1], m[2])
	}

	// CEL names the operator and the type of its operand. The remedy needs the name, which the line has.
	m := negatedName.FindStringSubmatch(rest)
	if m == nil || !strings.HasPrefix(message, "found no matching overload for '!_'") {
		return ""
	}
	switch {
	case strings.Contains(message, "'(string)'"):
		return fmt.Sprintf(`! does not take string: write %s == ""`, m[1])
	case strings.Contains(message, "'(int)'"):
		return fmt.Sprintf("! does not take int: write %s == 0", m[1])
	}
	return ""
}

// spacedShare is a percentage whose sign does not stand right behind it, or is a word.
var spacedShare = regexp.MustCompile(`^([1-9][0-9]?(?:\.[0-9]+)?)(?: +%| *(?:percent|pct))$`)

// calendarWord is a month or a year with the count or the letters that a duration has. The calendar has a word for each.
var calendarWord = regexp.MustCompile(`^1? ?(?:(mo|mon|months?|monthly)|y|yrs?|years?|yearly)$`)

// calendarOf says how such a window is written, "" for another one. Months and years differ in length, so no duration is one.
func calendarOf(text string) string {
	switch m := calendarWord.FindStringSubmatch(text); {
	case m == nil:
		return ""
	case m[1] != "":
		return "; write month"
	}
	return "; write year"
}
