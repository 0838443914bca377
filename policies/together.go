package policies

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// mostLists bounds the lists of a file.
const mostLists = 100

// readTogether reads the lists of policies that are charged together: all of them, or none. Lists that share a policy are one list.
func readTogether(l *loader, n *yaml.Node) {
	items := l.items(n, "together")
	if len(items) > mostLists {
		l.fail(n, "together: %d lists: at most %d", len(items), mostLists)
		return
	}

	for number, item := range items {
		number++
		for _, member := range l.items(item, "a list of together") {
			var name string
			l.text("together", &name)(member)
			p := l.set.named(name)
			if p == nil {
				l.fail(member, "together: there is no policy %q: %s", name, humanize.Remedy(name, l.set.names()))
				continue
			}
			if p.together > 0 && p.together != number {
				l.set.rename(p.together, number)
			}
			p.together = number
			refuseTogether(l, member, p)
		}
		if members := l.set.Listed(number); len(members) == 1 {
			l.fail(item, "together: want at least two policies in a list, such as [%s, everything]", members[0].Name)
		}
		refuseStores(l, item, number)
		warnUnforeseen(l, item, number)
	}
}

// warnUnforeseen warns of a candidate that admits more or less than its authoritative, as far as the file tells: a policy of the list that
// binds would then bind otherwise.
func warnUnforeseen(l *loader, at *yaml.Node, number int) {
	for _, p := range l.set.Listed(number) {
		candidate := p.Sides[algorithms.Candidate]
		if candidate == nil {
			continue
		}
		before, known := p.Sides[algorithms.Authoritative].Constant()
		after, same := candidate.Constant()
		if known && same && before.Requests == after.Requests && before.Window == after.Window {
			continue
		}
		l.warn(at, "together: the candidate of %s is compared beside the sides that are enforced today: what it would free or take in "+
			"another policy of the list is not foreseen, so promote it in small steps, and one policy at a time", p.Name)
	}
}

// refuseTogether refuses sides that no one step can charge together with others.
func refuseTogether(l *loader, at *yaml.Node, p *Policy) {
	for role, s := range p.Sides {
		why := ""
		switch {
		case s == nil:
		case s.Custom():
			why = "is a limiter of the program, which cannot take part in one step"
		case s.Sync > 0:
			why = "is synchronized, and so is charged behind the request"
		case s.Adaptive() != nil:
			why = "is adaptive, and so its limit may change between two of the list"
		}
		if why != "" {
			l.fail(at, "together: the %s of %s %s: take the policy off the list", algorithms.Role(role), p.Name, why)
		}
	}
}

// refuseStores refuses a list whose sides are in several stores.
func refuseStores(l *loader, at *yaml.Node, number int) {
	var stores []string
	for _, p := range l.set.Listed(number) {
		for _, s := range p.Sides {
			if s != nil && !s.None() && !slices.Contains(stores, s.Store) {
				stores = append(stores, s.Store)
			}
		}
	}
	if len(stores) > 1 {
		l.fail(at, "together: the sides are in several stores, %s: one step charges one store; give all the same one", fmt.Sprintf("%q", stores))
	}
}
