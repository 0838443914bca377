package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// sampler draws requests of the texts that a condition compares requests with, so that some of them meet it.
type sampler struct {
	draw                             *rand.Rand
	methods, paths, hosts, routes    []string
	addresses                        []string
	rest                             []string // texts of users, headers and all else
	headers, parameters, descriptors []string // names
}

var (
	texts         = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	routeTexts    = regexp.MustCompile(`request\.route == "([^"\\]*)"`)
	queryReads    = regexp.MustCompile(`request\.query\[\??["']([^"'\\]+)["']\]`)
	describeReads = regexp.MustCompile(`request\.descriptors\[\??["']([^"'\\]+)["']\]|["']([^"'\\]+)["'] in request\.descriptors`)
	methodText    = regexp.MustCompile(`^[A-Z]{3,7}$`)
	remarks       = regexp.MustCompile(`(?m)^ *#.*\n`)
	hostText      = regexp.MustCompile(`^\.?[a-z0-9-]+(\.[a-z0-9-]+)+$`)
)

// newSampler reads the text of a condition, and of what it reads. It draws the same requests of the same text.
func newSampler(text string) *sampler {
	s := &sampler{
		draw: rand.New(rand.NewPCG(1, 1)), methods: []string{"GET", "POST", "DELETE"}, paths: []string{"/"}, hosts: []string{"example.com"},
		routes: []string{""}, addresses: []string{"192.0.2.1"}, rest: []string{"", "ann"},
	}

	s.headers, s.parameters, s.descriptors = submatches(headerRead, text), submatches(queryReads, text), submatches(describeReads, text)
	names := slices.Concat(s.headers, s.parameters, s.descriptors)
	patterns := submatches(patternTexts, text)
	for _, quoted := range texts.FindAllString(text, mostTexts) {
		one, err := strconv.Unquote(quoted)
		address, isAddress := addressOf(one)
		switch {
		case err != nil || slices.Contains(names, one) || slices.Contains(patterns, quoted):
		case isAddress:
			s.addresses = append(s.addresses, address)
		case strings.HasPrefix(one, "/"):
			s.paths = append(s.paths, one, strings.TrimSuffix(one, "/")+"/1")
		case methodText.MatchString(one):
			s.methods = append(s.methods, one)
		case hostText.MatchString(one):
			s.hosts = append(s.hosts, strings.TrimPrefix(one, "."), "www."+strings.TrimPrefix(one, "."))
		case !slices.Contains(s.rest, one):
			s.rest = append(s.rest, one)
		}
	}
	s.routes = append(s.routes, submatches(routeTexts, text)...)
	s.addExamples(examplesIn(text))
	return s
}

// addExamples adds what regular expressions match. One that begins with a slash is a path of its own; another may be the end of any
// path, or a part of a header.
func (s *sampler) addExamples(list []string) {
	paths := s.paths
	for _, one := range list {
		if strings.HasPrefix(one, "/") {
			s.paths = append(s.paths, one)
			continue
		}
		s.rest = append(s.rest, one)
		for _, path := range paths[:min(len(paths), mostTexts/len(list))] {
			s.paths = append(s.paths, path+one)
		}
	}
}

// mostTexts bounds the texts of a condition that are tried.
const mostTexts = 2000

// submatches returns what the groups of an expression match, each once.
func submatches(x *regexp.Regexp, text string) (list []string) {
	for _, match := range x.FindAllStringSubmatch(text, mostTexts) {
		for _, one := range match[1:] {
			if one != "" && !slices.Contains(list, one) {
				list = append(list, one)
			}
		}
	}
	return list
}

// one returns one of several texts.
func (s *sampler) one(of []string) string { return of[s.draw.IntN(len(of))] }

// request draws a request.
func (s *sampler) request() *testRequest {
	r := &testRequest{Method: s.one(s.methods), Path: s.one(s.paths), Host: s.one(s.hosts), IP: s.one(s.addresses), User: s.one(s.rest)}
	r.Route = r.Path
	if len(s.routes) > 1 {
		r.Route = s.one(s.routes)
	}

	r.Headers, r.Query, r.Descriptors = s.entries(s.headers), s.entries(s.parameters), s.entries(s.descriptors)
	if len(s.descriptors) > 0 {
		r.Domain = s.one(s.rest)
	}
	return r
}

// entries draws the values of a map; some of its names may be absent.
func (s *sampler) entries(names []string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		if value := s.one(s.rest); value != "" {
			found[name] = value
		}
	}
	return found
}

// testRequest is a request as tests write it.
type testRequest struct {
	Method      string            `json:"method"`
	Path        string            `json:"path"`
	Route       string            `json:"route"`
	Host        string            `json:"host"`
	IP          string            `json:"ip"`
	User        string            `json:"user,omitempty"`
	Domain      string            `json:"domain,omitempty"`
	Query       map[string]string `json:"query,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Descriptors map[string]string `json:"descriptors,omitempty"`
}

// sampled is a request, as a test writes it, and its charges.
type sampled struct {
	request string
	charges []algorithms.Charge
}

// drawn is how many requests are tried for a policy.
const drawn = 2000

// samplesOf returns a few requests, among which are for each policy one that it matches and one that it does not match, as far
// as any are found. unmatched are the policies for which none is found that matches.
func samplesOf(set *policies.Set, text string) (list []sampled, unmatched []string, err error) {
	known := map[string]bool{}
	variables, _, _ := strings.Cut(remarks.ReplaceAllString(text, ""), "\npolicies:\n")
	for _, p := range set.Policies {
		s := newSampler(conditionsOf(p) + variables)
		for range drawn {
			if known[p.Name+matches] && known[p.Name+differs] {
				break
			}
			one, answers, err := s.try(set)
			if err != nil {
				return nil, nil, err
			}

			// A request teaches something if a policy is seen to match, or not to match, for the first time.
			if slices.ContainsFunc(answers, func(answer string) bool { return !known[answer] }) {
				list = append(list, one)
			}
			for _, answer := range answers {
				known[answer] = true
			}
		}
	}

	for _, p := range set.Policies {
		if !known[p.Name+matches] {
			unmatched = append(unmatched, p.Name)
		}
	}
	return list, unmatched, nil
}

// conditionsOf returns the texts of a policy's conditions: its own, or those of a group's members.
func conditionsOf(p *policies.Policy) string {
	var b strings.Builder
	for _, one := range append([]*policies.Policy{p}, p.Members...) {
		for _, part := range one.Parts() {
			b.WriteString(part.Text + "\n")
		}
	}
	return b.String()
}

// What a request says of a policy, behind the policy's name.
const (
	matches = " matches"
	differs = " does not match"
)

// try draws a request, and returns what it says of each policy; nothing where an expression fails.
func (s *sampler) try(set *policies.Set) (one sampled, answers []string, err error) {
	written, err := json.Marshal(s.request())
	if err != nil {
		return one, nil, err
	}
	request, err := policies.ParseRequest(written)
	if err != nil {
		return one, nil, err
	}

	one.request = string(written)
	one.charges, answers = chargesOf(set, request)
	return one, answers, nil
}

// chargesOf returns what a file charges a request, and of each policy whether it matches; nothing where an expression fails,
// for a test says what is charged.
func chargesOf(set *policies.Set, r *policies.Request) (charges []algorithms.Charge, answers []string) {
	for _, p := range set.Policies {
		c, charged, err := p.Charge(context.Background(), r)
		switch {
		case err != nil:
			return nil, nil
		case charged:
			charges, answers = append(charges, c), append(answers, p.Name+matches)
		default:
			answers = append(answers, p.Name+differs)
		}
	}
	return charges, answers
}
