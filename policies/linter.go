package policies

import (
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// linter warns of settings that are valid and probably not meant: policies that limit no
// client, sides that cannot differ, numbers that decide nothing. A warning never refuses
// a file, because a rule cannot know what the author wants.
type linter struct {
	*Problems
	knowsUsers bool // the file reads users somewhere
}

// usesUsers finds the files that know users. It looks at the text: a remark that names
// them counts, too, and shows that the author knows them.
var usesUsers = regexp.MustCompile(`request\.(user|claims)\b`)

// newLinter returns a linter for the file of this text, whose problems it adds to.
func newLinter(problems *Problems, text []byte) *linter {
	return &linter{problems, usesUsers.Match(text)}
}

// policy looks at one policy. at are the places of its fields.
func (l *linter) policy(p *Policy, at places) {
	// One line for each kind of mistake, in the order in which a file says these things.
	l.endlessKey(p, at["key"])
	l.absentKey(p, at["key"])
	l.condition(p, at["when"])
	l.limitBesideKey(p, at)
	l.costBeyondCapacity(p, at["cost"])
	l.hostileRequest(p, at)
	l.deniesAbsent(p, at)
	l.pointless(p, at)
	l.neverRefilled(p, at)

	// What depends on how a service runs.
	l.missingRow(p, at)
	l.unknownSize(p, at)
	l.hostHeader(p, at["name"])
	l.candidate(p, at["candidate"])
	l.startsCold(p, at)
	l.withoutShare(p, at)
	l.largeLogs(p, at)
	l.adaptiveSides(p, at)
}

// Keys that are busy within one window, for a warning of logs that take too much of a Redis.
const (
	busyKeys     = 10_000
	mostLogBytes = 1 << 30 // bytes of that many full logs, beyond which a log is rarely meant
)

// largeLogs warns of logs that fill a Redis before an operator expects it: a log grows with the limit, and all other
// algorithms store a few numbers a key.
func (l *linter) largeLogs(p *Policy, at places) {
	for role, side := range p.Sides {
		if side == nil || side.LargestLog()*busyKeys <= mostLogBytes {
			continue
		}
		l.warn(at[algorithms.Role(role).String()], "a log of this limit may take %d KiB a key in Redis, %.1f GiB for %d busy keys; "+
			"use sliding_window_counter or gcra, which store a few numbers a key, unless there are few keys",
			side.LargestLog()>>10, float64(side.LargestLog()*busyKeys)/(1<<30), busyKeys)
	}
}

// startsCold warns of a side that begins with its process beside one that does not: each start of an instance makes
// comparisons blind, for as long as the longer window.
func (l *linter) startsCold(p *Policy, at places) {
	candidate := p.Sides[algorithms.Candidate]
	if candidate == nil || p.Sides[algorithms.Authoritative].Foreign() == candidate.Foreign() {
		return
	}

	// Two windows of an hour at each deployment leave most of a day as evidence.
	window := max(p.Sides[algorithms.Authoritative].window, candidate.window)
	if window <= time.Hour {
		return
	}
	for role, side := range p.Sides {
		if side.Foreign() {
			l.warn(at[algorithms.Role(role).String()], "%s: if this limiter keeps its counts in the process, they begin at zero with each start "+
				"of an instance and those of the other side do not: comparisons are then blind for a window of %s; "+
				"keep both sides in Redis, or compare with a window of at most 1h first", side.Limiter, algorithms.FormatWindow(window))
		}
	}
}

// candidate warns of a candidate that brings nothing, or a stampede.
func (l *linter) candidate(p *Policy, at *yaml.Node) {
	candidate := p.Sides[algorithms.Candidate]
	if candidate == nil {
		return
	}

	// Windows up to a minute are the usual ones, and their stampede is as short.
	aligned := algorithms.TraitsOf(candidate.Algorithm).Shape == algorithms.AlignedWindow
	if aligned && candidate.options.Phase == algorithms.PhaseEpoch && candidate.window > time.Minute {
		l.warn(at, "windows of %s are aligned: all keys reset at the same instant, and clients return at once; "+
			"use sliding_window_counter or fixed_window_anchored", candidate.period())
	}
	if p.Sides[algorithms.Authoritative].decidesLike(candidate) {
		l.warn(at, "the candidate is the same limiter as the authoritative: they can never differ; "+
			"change one, or leave the candidate out")
	}
}

// decidesLike reports whether two sides decide alike whatever their ids, which name
// state and are no part of a decision.
func (s *Side) decidesLike(other *Side) bool {
	a, b := *s, *other
	a.ID, b.ID = "", ""
	a.members, b.members = a.members.withoutIDs(), b.members.withoutIDs()
	return a.identity() == b.identity()
}

// condition warns of a condition that is never true. It sees contradictions between
// filters only: CEL offers no proof of others.
func (l *linter) condition(p *Policy, at *yaml.Node) {
	if p.when == nil {
		return
	}
	if strings.TrimSpace(p.when.source) == "false" || contradict(p.when.filters) {
		l.warn(at, "when: no request can match: the policy is never charged")
	}
}

// costBeyondCapacity warns of a cost that no bucket holds.
func (l *linter) costBeyondCapacity(p *Policy, at *yaml.Node) {
	if p.cost.expression != nil {
		return
	}

	for role, side := range p.Sides {
		// A limit of 0 is meant to deny every request.
		if side == nil || side.Foreign() || !side.constant() || side.limit.constant == 0 {
			continue
		}
		limit := algorithms.Limit{Requests: side.limit.constant, Burst: side.burst.constant}
		if most := limit.Capacity(); p.cost.constant > most {
			l.warn(at, "cost: %d is more than the %s ever allows at once, %d: every request is denied",
				p.cost.constant, algorithms.Role(role), most)
			return
		}
	}
}

// set looks at the policies of a file together. items are their nodes.
func (l *linter) set(list []*Policy, items []*yaml.Node) {
	l.addressOnlyKeys(list, items)
	l.shadowed(list, items)
}

// shadowed warns of a policy that never decides: another one charges at least the
// same requests by the same key, with limits no higher. Of two equal policies it
// names the second.
func (l *linter) shadowed(list []*Policy, items []*yaml.Node) {
	for i, p := range list {
		for j, q := range list {
			if i != j && p.shadowedBy(q) && (i > j || !q.shadowedBy(p)) {
				l.warn(items[i], "%s: whatever it denies %s denies, too, by the same key and limits that are no higher: "+
					"leave one of them out", p.Name, q.Name)
				break
			}
		}
	}
}

// shadowedBy reports whether q denies whatever p denies. It compares conditions, keys
// and costs as they are written: a miss is no harm, a false report would be.
func (p *Policy) shadowedBy(q *Policy) bool {
	sameRequests := q.when == nil || p.when != nil && p.when.source == q.when.source
	if !sameRequests || p.key.text() != q.key.text() || p.cost.text() != q.cost.text() {
		return false
	}

	// Each side of p must be looser than the same side of q: any stage may enforce either. A policy without a candidate compares the
	// authoritative alone.
	for role, side := range p.Sides {
		if side != nil && (q.Sides[role] == nil || !side.looserThan(q.Sides[role])) {
			return false
		}
	}
	return true
}

// looserThan reports whether two sides differ at most in their limits, and this one
// has the higher.
func (s *Side) looserThan(other *Side) bool {
	// Limits of groups are not compared: a miss is no harm.
	if s.members != nil || other.members != nil {
		return false
	}
	// While the service suffers, an adaptive limit may be the smaller one.
	if s.adaptive != nil && (other.adaptive == nil || s.adaptive.rule.Key() != other.adaptive.rule.Key()) {
		return false
	}
	if s.Foreign() || other.Foreign() || s.limit.expression != nil || other.limit.expression != nil {
		return false
	}
	return s.Algorithm.Name() == other.Algorithm.Name() && s.window == other.window &&
		s.burst.text() == other.burst.text() && s.limit.constant >= other.limit.constant
}

// expectEverything warns of a declaration that leaves no evidence in its direction.
func (l *linter) expectEverything(p Promotion, at *yaml.Node) {
	for _, x := range p.expected {
		if x.when != nil && x.direction != "" && strings.TrimSpace(x.when.source) == "true" {
			l.warn(at, "expected: when: true declares every difference in the direction %s, "+
				"so none counts against the candidate: name the requests for which it is wanted, or ask its owner, %s",
				x.direction, x.owner)
		}
	}
}
