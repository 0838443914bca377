package importer

import (
	"fmt"
	"slices"
	"strings"
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
		n.in.add(Policy{
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

// several names the blocks in which a request has more than one limit.
func (n *nginx) several() {
	blocks := []settings{n.outside}
	for _, s := range n.servers {
		blocks = append(blocks, s.settings)
		for _, p := range s.places.all() {
			blocks = append(blocks, p.settings)
		}
	}

	for _, b := range blocks {
		if len(b.limits) < 2 || b.answered {
			continue
		}
		var zones []string
		for _, l := range b.limits {
			zones = append(zones, l.zone.name)
		}
		n.in.leave(b.limits[1].places[0], "limit_req of "+strings.Join(zones, " and "),
			"nginx charges none of several limits when one of them refuses: as policies, each is charged that does not refuse by itself")
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
