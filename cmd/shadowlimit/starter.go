package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/importer"
)

// starter is a first policy file and its tests.
type starter struct {
	by                 string // the command
	file, name, policy string
	route              string
	methods            []string
	key                string
	sides              []algorithms.Side
	roles              []algorithms.Role // of the sides
}

// when is the condition of the policy, "" for all requests.
func (s *starter) when() string {
	var parts []string
	if len(s.methods) > 0 {
		quoted := make([]string, len(s.methods))
		for i, method := range s.methods {
			quoted[i] = strconv.Quote(method)
		}
		parts = append(parts, "request.method in ["+strings.Join(quoted, ", ")+"]")
	}
	if s.route != "" {
		parts = append(parts, "request.route == "+strconv.Quote(s.route))
	}
	return strings.Join(parts, " && ")
}

// quotedYAML writes an expression as one line of YAML.
func quotedYAML(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff
	}) {
		return strconv.QuoteToASCII(text)
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

func (s *starter) policyText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# By shadowlimit %s. docs/policies.md explains each field; shadowlimit validate checks the file.\nversion: 1\n", s.by)
	fmt.Fprintf(&b, "name: %s   # namespace in Redis, in metrics and for the commands\n", quotedYAML(s.name))
	b.WriteString(importer.Generation)
	b.WriteString("retry_jitter: 20%   # Retry-After is up to so much longer than the exact wait: a crowd does not return at once\n" +
		"policies:\n")
	fmt.Fprintf(&b, "  - name: %s\n", quotedYAML(s.policy))
	if when := s.when(); when != "" {
		fmt.Fprintf(&b, "    # Which requests are charged. Without this line: all.\n    when: %s\n", quotedYAML(when))
	}

	fmt.Fprintf(&b, "    # What a budget is for. Behind a proxy request.ip needs httplimit.Config.ClientIP.\n    key: %s\n", quotedYAML(s.key))
	notes := map[algorithms.Role]string{
		algorithms.Authoritative: "Today's limiter, which decides until the candidate is promoted.",
		algorithms.Candidate:     "Tomorrow's limiter. It is evaluated beside today's and changes no answer in shadow.",
	}
	if !s.sides[0].Present() {
		notes = map[algorithms.Role]string{
			algorithms.Authoritative: "There is no limit today: every request is allowed until the candidate is promoted.",
			algorithms.Candidate:     "The first limit. It denies nobody in shadow, and shows whom it would.",
		}
	}
	for i, side := range s.sides {
		fmt.Fprintf(&b, "    # %s\n    %s: %s\n", notes[s.roles[i]], s.roles[i], sideYAML(side, s.idOf(i)))
	}
	if len(s.sides) > 1 {
		b.WriteString("promotion:\n  # automatic: a step is taken when the gate says pass.\n")
		b.WriteString("  mode: manual\n")
	}
	return b.String()
}

// idOf returns the id of a side, "" where its algorithm names its state: two sides of one algorithm would share one.
func (s *starter) idOf(i int) string {
	if s.roles[i] == algorithms.Candidate && s.sides[0].Present() && s.sides[0].Algorithm.Name() == s.sides[i].Algorithm.Name() {
		return idOfCandidate
	}
	return ""
}

// idOfCandidate names the state of a candidate that has the algorithm of its authoritative.
const idOfCandidate = "next"

// sideYAML writes a side as a policy file has it.
func sideYAML(side algorithms.Side, id string) string {
	if !side.Present() {
		return noLimit
	}
	l := side.Limit
	text := "{ "
	if id != "" {
		text += "id: " + id + ", "
	}
	text += fmt.Sprintf("algorithm: %s, limit: %d, window: %s", side.Algorithm.Name(), l.Requests, algorithms.FormatWindow(l.Window))
	if l.Burst > 0 {
		text += fmt.Sprintf(", burst: %d", l.Burst)
	}
	return text + " }"
}
