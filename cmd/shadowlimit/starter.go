package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/importer"
	"github.com/shadowlimit/shadowlimit/policies"
)

// starter is a first policy file and its tests.
type starter struct {
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
	fmt.Fprintf(&b, "# By shadowlimit init. docs/policies.md explains each field; shadowlimit validate checks the file.\nversion: 1\n")
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

// testsText is the file of tests: a request that is charged, one that is not, and how many pass at one instant.
func (s *starter) testsText(set *policies.Set) (string, error) {
	method := "GET"
	if len(s.methods) > 0 {
		method = s.methods[0]
	}
	route := s.route
	if route == "" {
		route = "/"
	}
	request := s.sample(method, route)
	check, _, err := set.Policies[0].Check(context.Background(), &request)
	if err != nil {
		return "", fmt.Errorf("--key %s: %w", s.key, err)
	}

	var b strings.Builder
	fmt.Fprintf(&b, "# By shadowlimit init. Run them by: shadowlimit test %s\n", filepath.Base(testsFile(s.file)))
	fmt.Fprintf(&b, "policies: %s\ntests:\n  - name: a request is charged to its client\n", quotedYAML(filepath.Base(s.file)))
	fmt.Fprintf(&b, "    request: %s\n    charges:\n", sampleYAML(&request))
	fmt.Fprintf(&b, "      - { policy: %s, key: %s, cost: 1 }\n", quotedYAML(s.policy), quotedYAML(check.Key))
	if other, found := s.other(method, route); found {
		fmt.Fprintf(&b, "  - name: another request is not\n    request: %s\n    charges: []\n", sampleYAML(&other))
	}
	s.writeSequence(&b, sampleYAML(&request))
	return b.String(), nil
}

// headerRead finds the headers that an expression reads.
var headerRead = regexp.MustCompile(`request\.headers\[\??["']([A-Za-z0-9-]+)["']\]`)

// sample is a request of some client.
func (s *starter) sample(method, route string) policies.Request {
	r := policies.Request{Method: method, Path: route, Route: route, IP: "192.0.2.1", User: "ann", Headers: map[string][]string{}}
	for _, match := range headerRead.FindAllStringSubmatch(s.key, 8) {
		r.Headers[http.CanonicalHeaderKey(match[1])] = []string{"ann"}
	}
	return r
}

// other is a request that the policy does not match; there is none if it matches all.
func (s *starter) other(method, route string) (r policies.Request, found bool) {
	switch {
	case s.route != "":
		return s.sample(method, route+"/other"), true
	case len(s.methods) > 0:
		i := 0
		for slices.Contains(s.methods, "OTHER"+strconv.Itoa(i)) {
			i++
		}
		return s.sample("OTHER"+strconv.Itoa(i), route), true
	}
	return r, false
}

func sampleYAML(r *policies.Request) string {
	text := fmt.Sprintf("{ method: %s, path: %s, route: %s, ip: %s, user: %s",
		quotedYAML(r.Method), quotedYAML(r.Path), quotedYAML(r.Route), quotedYAML(r.IP), quotedYAML(r.User))
	if len(r.Headers) == 0 {
		return text + " }"
	}

	var names []string
	for name := range r.Headers {
		names = append(names, quotedYAML(name)+": 'ann'")
	}
	slices.Sort(names)
	return text + ", headers: { " + strings.Join(names, ", ") + " } }"
}

// mostAtOnce is the largest capacity that a test exhausts.
const mostAtOnce = 10_000

// writeSequence writes how many requests of a new client pass at one instant: each limiter admits its capacity, and no more.
func (s *starter) writeSequence(b *strings.Builder, request string) {
	var capacities []int64
	for _, side := range s.sides {
		if side.Present() {
			capacities = append(capacities, side.Limit.Capacity())
		}
	}
	steps := slices.Compact(slices.Sorted(slices.Values(capacities)))
	if steps[len(steps)-1] > mostAtOnce {
		return
	}

	b.WriteString("  - name: a new client may use up its budget at once, and no more\n    sequence:\n")
	before := int64(0)
	for _, until := range append(steps, steps[len(steps)-1]+1) {
		if until == before {
			continue // a limit of 0
		}
		fmt.Fprintf(b, "      - { at: 0s, repeat: %d, request: %s", until-before, request)
		for i, side := range s.sides {
			answer := "allow"
			if side.Present() && side.Limit.Capacity() < until {
				answer = "deny"
			}
			fmt.Fprintf(b, ", %s: %s", s.roles[i], answer)
		}
		b.WriteString(" }\n")
		before = until
	}
}
