package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// policies makes a policy of each limit.
func (n *nginx) policies() {
	for _, l := range n.limits {
		when := n.where(func(s settings) expr {
			if slices.Contains(s.limits, l) && !s.answered {
				return yes
			}
			return no
		})
		if when == no {
			n.in.leave(l.places[0], l.text, "no request reaches it: other limits or a return come before it")
			continue
		}

		limit, window := l.zone.budget()
		algorithm := "leaky_bucket"
		if l.nodelay {
			algorithm = "token_bucket"
		}
		l.policy = n.in.add(Policy{
			Name: l.zone.name, Place: l.places[0],
			Origin:  fmt.Sprintf("%s; %s at %s", l.text, l.zone.text, l.zone.Place) + others(l.places[1:]),
			Differs: l.differs, when: and(when, l.zone.set), key: l.zone.key,
			// nginx does not count the first request as a part of the burst.
			side: side{algorithm: algorithm, limit: limit, window: window, burst: l.burst + 1},
		})
	}
	n.several()
}

// where returns the condition under which nginx takes a block for which a condition holds.
func (n *nginx) where(holds func(settings) expr) expr {
	if len(n.servers) == 0 {
		return holds(n.outside)
	}
	return n.byHost(func(s *nginxServer) expr { return s.byPath(holds) })
}

// several makes groups of the limits that a request can have at once: nginx charges none of them when one refuses. It names the blocks
// of which no group has all.
func (n *nginx) several() {
	met, blocks := newSets(len(n.in.Policies)), n.blocks()
	for _, b := range blocks {
		for _, list := range n.in.ofOneKey(b) {
			for _, at := range list {
				met.join(list[0], at)
			}
		}
	}

	bad := map[int]string{}
	for _, set := range met.lists() {
		var names []string
		for _, at := range set {
			names = append(names, n.in.Policies[at].Name)
		}
		bad[set[0]] = n.in.together(strings.Join(names, "-"), algorithms.AllOrNothing, set)
	}
	n.apart(blocks, met, bad)
}

// blocks returns the policies of each block in which a request has more than one, by their places.
func (n *nginx) blocks() (blocks [][]int) {
	all := []settings{n.outside}
	for _, s := range n.servers {
		all = append(all, s.settings)
		for _, p := range s.places.all() {
			all = append(all, p.settings)
		}
	}

	for _, b := range all {
		var list []int
		for _, l := range b.limits {
			if l.policy >= 0 && !b.answered {
				list = append(list, l.policy)
			}
		}
		if len(list) > 1 {
			blocks = append(blocks, list)
		}
	}
	return blocks
}

// apart names the blocks whose policies are not in one group. bad says why a set is none, by its first policy.
func (n *nginx) apart(blocks [][]int, met sets, bad map[int]string) {
	zones := map[int]string{}
	for _, l := range n.limits {
		zones[l.policy] = l.zone.name
	}

	for _, block := range blocks {
		why, names := "", []string(nil)
		for _, at := range block {
			names = append(names, zones[at])
			why = cmp.Or(why, bad[met.of(at)])
			if met.of(at) != met.of(block[0]) {
				why = "they have different keys, and a group has one"
			}
		}
		if why != "" {
			n.in.leave(n.in.Policies[block[1]].Place, "limit_req of "+strings.Join(names, " and "), "nginx charges none of several limits when "+
				"one of them refuses: %s, so as policies each is charged that does not refuse by itself", why)
		}
	}
}

// others lists further places of a limit.
func others(places []Place) string {
	if len(places) == 0 {
		return ""
	}

	var list []string
	for _, p := range places[:min(len(places), 5)] {
		list = append(list, p.String())
	}
	if len(places) > len(list) {
		list = append(list, fmt.Sprintf("%d more", len(places)-len(list)))
	}
	return "; also " + strings.Join(list, ", ")
}
