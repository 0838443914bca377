package policies

import (
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// placing warns of a promotion section that places keys in a way that decides nothing, or
// more than its author can want. It looks at what this section names, because the file's
// is looked at by itself.
func (l *linter) placing(p Promotion, at places) {
	// A constant expression is valid: a file that is made by a program may have one. It is hardly what a person means.
	if at["first"] != nil {
		switch always, constant := p.first.constant(); {
		case constant && always:
			l.warn(at["first"], "first: every key is in the canary from its first step, so its percentages decide nothing: "+
				"name the keys that come first")
		case constant:
			l.warn(at["first"], "first: no key can match: the hash places every key")
		case p.first != nil && p.last != nil && strings.TrimSpace(p.first.source) == strings.TrimSpace(p.last.source):
			l.warn(at["first"], "first: last names the same keys and wins, so first decides nothing: leave one of them out")
		}
	}

	// In the other direction the loss is greater: without a canary no trigger can act before all keys have moved.
	if at["last"] != nil {
		switch always, constant := p.last.constant(); {
		case constant && always:
			l.warn(at["last"], "last: no key is in a canary, so its steps show nothing, and the promotion moves all keys at once: "+
				"name the keys that come last")
		case constant:
			l.warn(at["last"], "last: no key can match: the hash places every key")
		}
	}
}

// places warns of a policy whose keys cannot be placed as its promotion says. The section itself may be right: the file's is
// for all policies, with and without a candidate. at are the places
// of its own section.
func (l *linter) places(p *Policy, at places) {
	for _, field := range []string{"first", "last"} {
		switch {
		case at[field] == nil:
		case p.Sides[algorithms.Candidate] == nil:
			l.warn(at[field], "%s: the policy has no candidate, so all keys stay with the authoritative: leave %s out", field, field)
		case p.Promotion.Sample > 0:
			l.warn(at[field], "%s: a sampled policy does not leave shadow, so %s decides nothing: leave one of them out", field, field)
		}
	}

	// A misspelled key is the usual mistake, and no error: the hash then places a key that its author has meant to protect.
	for _, declared := range []struct {
		x     *placing
		place algorithms.Place
	}{{p.Promotion.first, algorithms.First}, {p.Promotion.last, algorithms.Last}} {
		if n, known := l.namedKeys(p, declared.x); known && n == 0 {
			l.warnAt(declared.x.at.line, declared.x.at.column, "%s: no key of %s can match: the hash places every key", declared.place, p.Name)
		}
	}

	// The expression may be the file's, which several policies share.
	for _, x := range []*placing{p.Promotion.first, p.Promotion.last} {
		if x != nil && p.Sides[algorithms.Candidate] != nil && x.parts > int64(len(p.key)) {
			l.warnAt(x.at.line, x.at.column, "%s: key[%d] fails for every key of %s, whose keys have %d of these parts, from key[0] on: "+
				"the hash then places them", strings.TrimSpace(x.source), x.parts-1, p.Name, len(p.key))
		}
	}
}

// namedKeys returns how many keys of a policy an expression names. It is known only where the expression works for the policy, and
// where no other warning says already that it decides nothing.
func (l *linter) namedKeys(p *Policy, x *placing) (n int, known bool) {
	if x == nil || p.Sides[algorithms.Candidate] == nil || x.parts > int64(len(p.key)) {
		return 0, false
	}
	if _, constant := x.constant(); constant {
		return 0, false
	}
	return x.namedKeys(p.key)
}
