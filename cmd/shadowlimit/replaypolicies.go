package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// policyReplay replays logs through the policies of a file. Policies charge
// independently, so each is a replay of its own.
type policyReplay struct {
	list     []*policies.Policy // those with a candidate
	events   []*replay.Events   // of each
	first    int64              // instants of the log's first request and of its last
	last     int64
	requests int64
	failed   int64 // requests that an expression could not judge
	firstErr error
}

func openPolicyReplay(file string) (*policyReplay, error) {
	set, err := policies.LoadFile(file)
	if err != nil {
		return nil, placed(file, err)
	}
	r := &policyReplay{}
	for _, p := range set.Policies {
		for _, side := range p.Sides {
			if side != nil && side.Foreign() {
				return nil, fmt.Errorf("%s: policy %s: the limiter %q is known to your program alone: it cannot be replayed", file, p.Name, side.Limiter)
			}
		}
		if p.Sides[algorithms.Candidate] != nil {
			r.list, r.events = append(r.list, p), append(r.events, &replay.Events{})
		}
	}
	if len(r.list) == 0 {
		return nil, fmt.Errorf("%s: no policy has a candidate: there is nothing to compare", file)
	}
	return r, nil
}

// add charges one line of a log.
func (r *policyReplay) add(ctx context.Context, e accesslog.Event) {
	if r.requests++; r.requests == 1 {
		r.first, r.last = e.At, e.At
	}
	r.first, r.last = min(r.first, e.At), max(r.last, e.At)
	request, failed := requestOf(e), false
	for i, p := range r.list {
		c, matches, err := p.Charge(ctx, request)
		if err != nil {
			failed = true
			if r.firstErr == nil {
				r.firstErr = fmt.Errorf("policy %s: %w", p.Name, err)
			}
		}
		if matches {
			terms := replay.Terms{Expected: p.Expected(ctx, request)}
			for role, side := range c.Sides {
				terms.Limits[role] = side.Limit
			}
			r.events[i].AddTerms(e.At, []byte(c.Key), c.Cost, terms)
		}
	}
	if failed {
		r.failed++
	}
}

// requestOf makes a request of what a log tells of one. A log knows no routes: the
// route is the path unless the log has one.
func requestOf(e accesslog.Event) *policies.Request {
	field := func(name string) string {
		text, _ := e.Field(name)
		return text
	}
	request := &policies.Request{
		Method: field("method"), Path: field("path"), Route: field("route"), Host: field("host"), RawQuery: field("query"),
		IP: field("ip"), User: field("user"), Time: time.UnixMicro(e.At).UTC(), Size: -1, Headers: http.Header{},
	}
	if request.Route == "" {
		request.Route = request.Path
	}
	if n, err := strconv.ParseInt(field("size"), 10, 64); err == nil {
		request.Size = n
	}
	headers := e.Under("headers")
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		request.Headers.Set(name, headers[name]) // of names that differ in case alone, the last
	}
	return request
}

// run replays what was collected, policy by policy.
func (r *policyReplay) run(ctx context.Context, o replayOptions, bar *progress) (*replay.Report, error) {
	first, last := time.UnixMicro(r.first).UTC(), time.UnixMicro(r.last).UTC()
	total := &replay.Report{First: &first, Last: &last} // there is a request, else there was no log to replay
	for i, p := range r.list {
		pair, closePair, err := o.openPair()
		if err != nil {
			return nil, err
		}
		cfg := replay.Config{Policy: p.Name, Pair: pair, Gate: o.gateOf(shadow.PromotionOf(p.Promotion).Config)}
		for role, side := range p.Sides {
			cfg.Sides[role] = algorithms.Side{ID: side.Bare().ID, Algorithm: algorithms.Unbounded(side.Algorithm)}
			cfg.Texts[role] = side.String()
		}
		cfg.Progress = func(judged, of int) { bar.show("replaying "+p.Name, int64(judged), int64(of)) }
		report, err := replay.Run(ctx, r.events[i], cfg)
		closePair()
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.Name, err)
		}
		total.Join(report)
	}
	return total, nil
}
