package importer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// haTurn is where a proxy counts the requests of a limit, and where it asks the limit: the places of both rules.
type haTurn struct {
	proxy          *haProxy
	counted, asked int
}

// mostTurns bounds the turns of all limits.
const mostTurns = 2 * mostPolicies

// haMeeting is what a denial by one limit means for the counting of another.
type haMeeting struct {
	met     bool // some requests come to both
	stopped bool // a request that the one denies is not counted by the other
	unclear bool // it depends on the proxy, or on which of several rules of one limit denies
}

// stoppedBy returns what denials of another limit mean for this one: HAProxy follows the rules in their order and ends with the
// first denial, those of a frontend before those of the backend.
func (l *haLimit) stoppedBy(other *haLimit) (m haMeeting) {
	for _, a := range l.turns {
		for _, b := range other.turns {
			stops := false
			switch {
			case a.proxy == b.proxy:
				stops = b.asked < a.counted
			case b.proxy.leadsTo(a.proxy):
				stops = true
			case !a.proxy.leadsTo(b.proxy):
				continue
			}

			// A limit may stand in several proxies. It is clear only if all of them say the same.
			m.unclear = m.unclear || m.met && m.stopped != stops
			m.met, m.stopped = true, m.stopped || stops
		}
	}
	return m
}

// leadsTo reports whether a proxy names another one as a backend.
func (p *haProxy) leadsTo(backend *haProxy) bool {
	return backend.kind == "backend" && slices.ContainsFunc(p.backends, func(l haLine) bool { return l.word(1) == backend.name })
}

// dependent returns the limits in sets in which denials of one keep another from counting. Where the keys differ, no group has that.
func (h *haproxy) dependent() (lists [][]*haLimit) {
	joined := newSets(len(h.limits))
	for i, l := range h.limits {
		for k, other := range h.limits {
			switch {
			case i == k || !l.stoppedBy(other).stopped:
			case slices.Equal(l.key, other.key):
				joined.join(i, k)
			default:
				h.in.leave(l.place, l.text, "HAProxy does not count here what the limit of line %d has denied: their keys differ, and a group has "+
					"one, so as a policy it counts that", other.place.Line)
			}
		}
	}

	for _, set := range joined.lists() {
		var list []*haLimit
		for _, i := range set {
			list = append(list, h.limits[i])
		}
		lists = append(lists, list)
	}
	return lists
}

// inOrder sorts limits as the members of a group are asked, and returns how the group charges, if a group decides as HAProxy does.
// HAProxy counts a request by a limit unless a rule before the counter has denied it. In a group until_denied each member is stopped by
// those before it, and by none behind it. In a group all_or_nothing each one is stopped by all, itself included.
func inOrder(list []*haLimit) (charge algorithms.GroupCharge, ok bool) {
	stops := map[*haLimit]int{}
	for _, l := range list {
		for _, other := range list {
			if other != l && l.stoppedBy(other).stopped {
				stops[l]++
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *haLimit) int { return cmp.Compare(stops[a], stops[b]) })

	until, all := true, true
	for i, later := range list {
		all = all && !later.counts
		for _, earlier := range list[:i] {
			forward, backward := later.stoppedBy(earlier), earlier.stoppedBy(later)
			switch {
			case forward.unclear || backward.unclear:
				return 0, false
			case forward.met:
				until = until && forward.stopped && !backward.stopped
				all = all && forward.stopped && backward.stopped
			}
		}
	}

	if all {
		return algorithms.AllOrNothing, true
	}
	return algorithms.UntilDenied, until
}

// together adds the policies of limits that depend on each other, as a group if there is one.
func (h *haproxy) together(list []*haLimit) {
	charge, ok := inOrder(list)
	names, places := []string(nil), []int(nil)
	for _, l := range list {
		names, places = append(names, l.table), append(places, h.in.add(h.policy(l)))
	}

	bad := "the order of their rules is that of no group"
	if ok {
		// A set of one limit is no group.
		bad = h.in.together(strings.Join(names, "-"), charge, places)
	}
	if bad != "" {
		last := list[len(list)-1]
		h.in.leave(last.place, last.text, "HAProxy does not count a request by all of %s once one of them has denied it: %s, so as policies "+
			"each is charged", strings.Join(names, ", "), bad)
	}
}
