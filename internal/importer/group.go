package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Group is several limits that are charged together.
type Group struct {
	Name   string `json:"name"`
	Charge string `json:"charge"` // what a denial by one of them leaves behind
}

// together makes a group of added policies, which have one key, by their places in the list; a place below 0 is of one that was
// not added. bad says why no policy file can have the group: then each policy stays alone.
func (in *Import) together(name string, charge algorithms.GroupCharge, places []int) (bad string) {
	places = slices.DeleteFunc(slices.Clone(places), func(at int) bool { return at < 0 })
	switch {
	case len(places) < 2:
		return ""
	case len(places) > algorithms.MaxMembers:
		return fmt.Sprintf("a group has at most %d limits", algorithms.MaxMembers)
	case !in.inOneUnit(places):
		return "a group has one cost, and in parts of a request that all of them have, their numbers are too large"
	}

	g := &Group{Name: in.unused(name), Charge: charge.String()}
	for _, at := range places {
		in.Policies[at].Group = g
	}
	return ""
}

// byKey makes a group of the policies of each key that the peer charges together. bad says why they are not all in one.
func (in *Import) byKey(name string, charge algorithms.GroupCharge, places []int) (bad string) {
	lists := in.ofOneKey(places)
	for _, list := range lists {
		bad = cmp.Or(in.together(name, charge, list), bad)
	}

	if len(lists) > 1 {
		bad = "they have different keys, and a group has one"
	}
	return bad
}

// ofOneKey parts policies by their keys.
func (in *Import) ofOneKey(places []int) (lists [][]int) {
	known := map[string]int{}
	for _, at := range places {
		var texts []string
		for _, e := range in.Policies[at].key {
			texts = append(texts, e.text)
		}
		key := strings.Join(texts, "\x00")

		if _, found := known[key]; !found {
			known[key] = len(lists)
			lists = append(lists, nil)
		}
		lists[known[key]] = append(lists[known[key]], at)
	}
	return lists
}

// unused makes a name that no policy and no group has.
func (in *Import) unused(text string) string {
	base := validName(text)
	name := base
	taken := func(p Policy) bool { return p.Name == name || p.Group != nil && p.Group.Name == name }
	for n := 2; slices.ContainsFunc(in.Policies, taken); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// mostUnits bounds limits and costs in parts of a request: no algorithm takes more.
const mostUnits = 1 << 53

// inOneUnit gives policies one cost, the least common multiple of theirs. Limits and bursts grow with it, so each policy decides as
// before. It changes nothing if that makes a limit which its algorithm refuses.
func (in *Import) inOneUnit(places []int) bool {
	common := int64(1)
	for _, at := range places {
		cost := max(1, in.Policies[at].cost)
		factor := cost / greatestDivisor(common, cost)
		if factor > mostUnits/common {
			return false
		}
		common *= factor
	}

	sides := make([]side, len(places))
	for i, at := range places {
		p := in.Policies[at]
		factor := common / max(1, p.cost)
		if sides[i] = p.side.times(factor); factor > 1 && !sides[i].sound() {
			return false
		}
	}
	for i, at := range places {
		in.Policies[at].side, in.Policies[at].cost = sides[i], common
	}
	return true
}

func greatestDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// times returns the side in parts of a request that are smaller by a factor. Numbers beyond mostUnits, which no algorithm takes,
// stay beyond it.
func (s side) times(factor int64) side {
	grown := func(n int64) int64 {
		if n > mostUnits/factor {
			return mostUnits
		}
		return n * factor
	}
	s.limit, s.burst = grown(s.limit), grown(s.burst)
	return s
}

// sound reports whether the algorithm of a side takes its numbers.
func (s side) sound() bool {
	a, err := algorithms.ByName(s.algorithm)
	return err == nil && a.Validate(algorithms.Limit{Requests: s.limit, Window: s.window, Burst: s.burst}) == nil
}

// alone takes policies out of groups that they are left alone in.
func (in *Import) alone() {
	members := map[*Group]int{}
	for _, p := range in.Policies {
		members[p.Group]++
	}
	for i, p := range in.Policies {
		if members[p.Group] == 1 {
			in.Policies[i].Group = nil
		}
	}
}

// sets are limits, by their indexes, in the sets into which they were joined. Each has the index of another one of its set, and the
// first one of a set its own.
type sets []int

func newSets(n int) sets {
	s := make(sets, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// of returns the first one of the set of i.
func (s sets) of(i int) int {
	for s[i] != i {
		i = s[i]
	}
	return i
}

func (s sets) join(i, k int) {
	i, k = s.of(i), s.of(k)
	s[max(i, k)] = min(i, k)
}

// lists returns the sets, each in order.
func (s sets) lists() (lists [][]int) {
	place := map[int]int{}
	for i := range s {
		first := s.of(i)

		if first == i {
			place[i] = len(lists)
			lists = append(lists, nil)
		}
		lists[place[first]] = append(lists[place[first]], i)
	}
	return lists
}
