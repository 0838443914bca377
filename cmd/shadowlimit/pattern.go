package main

import (
	"net/netip"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// patternTexts are the regular expressions of conditions.
var patternTexts = regexp.MustCompile(`\.matches\(("(?:[^"\\]|\\.)*")\)`)

// examplesIn returns a text for each regular expression of conditions that the expression matches.
func examplesIn(text string) (list []string) {
	for _, quoted := range submatches(patternTexts, text) {
		pattern, err := strconv.Unquote(quoted)
		if err != nil {
			continue
		}
		if one := exampleOf(pattern); one != "" && !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// exampleOf returns a short text that a regular expression matches, or nearly: a draw is tried in any case.
func exampleOf(pattern string) string {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	return exampleText(parsed.Simplify())
}

func exampleText(r *syntax.Regexp) string {
	switch r.Op {
	case syntax.OpLiteral:
		if r.Flags&syntax.FoldCase != 0 {
			return strings.ToLower(string(r.Rune))
		}
		return string(r.Rune)

	case syntax.OpCharClass:
		return string(plainOf(r.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpCapture, syntax.OpPlus, syntax.OpAlternate:
		return exampleText(r.Sub[0])

	case syntax.OpConcat:
		var text strings.Builder
		for _, part := range r.Sub {
			text.WriteString(exampleText(part))
		}
		return text.String()
	}
	return "" // anchors, and what may be absent
}

// plainOf returns a letter or a digit of a class of characters, or else its first one.
func plainOf(ranges []rune) rune {
	for i := 0; i+1 < len(ranges); i += 2 {
		for _, r := range "a1A" {
			if ranges[i] <= r && r <= ranges[i+1] {
				return r
			}
		}
	}
	if len(ranges) == 0 {
		return 'a'
	}
	return ranges[0]
}

// addressOf returns the address of a text that is one, or a network.
func addressOf(text string) (string, bool) {
	if network, err := netip.ParsePrefix(text); err == nil {
		return network.Addr().String(), true
	}
	_, err := netip.ParseAddr(text)
	return text, err == nil
}
