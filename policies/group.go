package policies

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// membership is the field group of a policy: which group it is a member of.
type membership struct{ name, charge string }

// group is a group while its file is read. Its first member gives what all members have in common.
type group struct {
	policy *Policy // what the members are together
	first  *Policy
	node   *yaml.Node // of the first member
	fields places     // of the first member: a later one is held against them
	at     *yaml.Node // the first member's field group
	nodes  []*yaml.Node
}

// groupCharges are the two ways to charge a group, by their words in a file.
var groupCharges = map[string]algorithms.GroupCharge{
	algorithms.AllOrNothing.String(): algorithms.AllOrNothing,
	algorithms.UntilDenied.String():  algorithms.UntilDenied,
}

// membership returns a reader of the field group.
func (c *compiler) membership(into *membership) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// The members of a group whose name is not known are not asked for what it gives them.
		if n.Kind != yaml.MappingNode {
			c.fail(n, "a group: write group: { name: client }, and in its first member group: { name: client, charge: all_or_nothing }")
			return
		}

		c.mapping(n, "a group", map[string]field{
			"name":   {read: c.name("group: name", &into.name), required: true},
			"charge": {read: c.charge(&into.charge)},
			// A group in a group is a natural thing to try, and deserves more than "unknown field".
			"group": {read: func(n *yaml.Node) {
				c.fail(n, "a group is no member of a group: give all policies that are charged together one group")
			}},
		})
	}
}

// charge returns a reader of the way in which a group is charged.
func (r *reader) charge(into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// The words are two, so the message has both where neither was meant.
		if _, known := groupCharges[n.Value]; n.Kind != yaml.ScalarNode || !known {
			words := []string{algorithms.AllOrNothing.String(), algorithms.UntilDenied.String()}
			r.fail(n, "group: no charge %q: %s", n.Value, humanize.Remedy(n.Value, words))
			return
		}
		*into = n.Value
	}
}

// later reports whether the policy of a node is a member of a group that an earlier policy has begun, or may have: what members have in
// common need not stand there again.
func (c *compiler) later(n *yaml.Node) bool {
	fields := placesOf(n)
	at := fields["group"]
	if at == nil {
		return false
	}

	name := nameOf(target(at))
	return target(at).Kind != yaml.MappingNode || name == "" || c.groups[name] != nil || c.joinsNone(fields)
}

// joinsNone reports whether a policy looks like a later member of a group that no policy above has begun: it leaves out what the first
// member gives. Its author has mistaken the name.
func (c *compiler) joinsNone(fields places) bool {
	return len(c.groups) > 0 && fields["key"] == nil && placesOf(fields.orNone("group"))["charge"] == nil
}

// join puts a policy into the group that it names, and returns that group; nil for a policy that is no member.
func (c *compiler) join(p *Policy, n *yaml.Node) *group {
	name := p.membership.name
	if name == "" {
		return nil
	}

	// Members need not stand beside each other in the file: a group is known by its name.
	g := c.groups[name]
	if g == nil {
		g = c.begin(p, n)
		c.groups[name] = g
	} else {
		c.agree(g, p, placesOf(n))
	}

	// A member that is refused stays in the list, so that what follows it is checked as it is meant.
	c.checkMember(g, p, n)
	g.policy.Members = append(g.policy.Members, p)
	g.nodes = append(g.nodes, n)
	return g
}

// begin makes the group of its first member.
func (c *compiler) begin(p *Policy, n *yaml.Node) *group {
	// There is no charge by default: either of them would surprise half of the authors.
	fields := placesOf(n)
	at := fields.orNone("group")
	switch {
	case c.joinsNone(fields):
		c.fail(at, "no policy above begins group %q, and gives it its key and charge: %s", p.membership.name,
			humanize.Remedy(p.membership.name, slices.Sorted(maps.Keys(c.groups))))
	case p.membership.charge == "" && placesOf(at)["charge"] == nil:
		c.fail(at, "a group needs \"charge\": all_or_nothing, if every member is charged or none, "+
			"or until_denied, if the members are charged in order until one denies")
	}

	// The group is a policy: commands, evidence and records know nothing of its members.
	return &group{
		first: p, node: n, fields: fields, at: at,
		policy: &Policy{
			Name: p.membership.name, Together: groupCharges[p.membership.charge], OnStoreFailure: p.OnStoreFailure,
			OnError: p.OnError, Promotion: p.Promotion, key: p.key, cost: p.cost, scope: p.scope,
		},
	}
}

// shared are the fields that a group has once: its first member gives them, and later ones may leave them out.
var shared = []string{"key", "cost", "on_store_failure", "on_error", "promotion"}

// agree refuses what contradicts the group's first member, and gives a later one what it has left out.
func (c *compiler) agree(g *group, p *Policy, fields places) {
	// A field that is repeated word for word contradicts nothing.
	for _, name := range shared {
		if n := fields[name]; n != nil && (g.fields[name] == nil || flow(n) != flow(g.fields[name])) {
			c.fail(n, "%s: group %s has one for all members, and %s in line %d is the first of them: "+
				"leave it out here, or write it there", name, g.policy.Name, g.first.Name, g.node.Line)
		}
	}

	// The charge stands in the field group, beside the name, and not among the fields of the policy.
	charge, first := p.membership.charge, g.first.membership.charge
	switch {
	case charge != "" && first == "": // told at the first member
	case charge != "" && charge != first:
		c.fail(placesOf(fields.orNone("group")).orNone("charge"), "group %s is charged %s, as %s in line %d says: leave it out here",
			g.policy.Name, first, g.first.Name, g.node.Line)
	}

	// A member by itself is asked by tests and by the linter, which know nothing of groups.
	p.key, p.cost, p.Promotion = g.first.key, g.first.cost, g.first.Promotion
	p.OnStoreFailure, p.OnError = g.first.OnStoreFailure, g.first.OnError
}

// checkMember refuses a policy that cannot be a member of its group.
func (c *compiler) checkMember(g *group, p *Policy, n *yaml.Node) {
	// Each problem is noted, and not the first alone: one look at the file should be enough.
	fields := placesOf(n)
	if len(g.nodes) == algorithms.MaxMembers {
		c.fail(n, "group %s has more than %d members: a charge asks all of them at one instant", g.policy.Name, algorithms.MaxMembers)
	}

	// Sides that could not be read have their own problems.
	candidate, first := fields["candidate"], g.fields["candidate"]
	switch {
	case candidate == nil && first != nil:
		c.fail(n, "%s has no candidate, and %s of the same group has one: give all members of %s a candidate, or none; "+
			"a limit that stays is a candidate equal to the authoritative", p.Name, g.first.Name, g.policy.Name)
	case candidate != nil && first == nil:
		c.fail(candidate, "%s has a candidate, and %s of the same group has none: give all members of %s a candidate, or none",
			p.Name, g.first.Name, g.policy.Name)
	}
	for role, side := range p.Sides {
		if side != nil {
			c.checkMemberSide(g, side, fields.orNone(algorithms.Role(role).String()))
		}
	}
}

// checkMemberSide refuses a side that cannot be judged in one step with those of the other members.
func (c *compiler) checkMemberSide(g *group, s *Side, n *yaml.Node) {
	at := placesOf(n)
	if s.Foreign() {
		c.fail(n, "the limiter %s is no member of group %s: members are judged in one step, and only our own algorithms can be; "+
			"take it out of the group", s.Limiter, g.policy.Name)
		return
	}
	if s.Sync > 0 {
		c.fail(at.orNone("store"), "a member of group %s cannot be synchronized in this version: leave out sync", g.policy.Name)
	}
	if store := g.first.Sides[algorithms.Authoritative]; store != nil && s.Store != store.Store {
		c.fail(n, "group %s lies in one store, and %s in line %d has another one: give all sides of the group the same store",
			g.policy.Name, g.first.Name, g.node.Line)
	}

	if s.adaptive != nil {
		c.fail(at.orNone("adaptive"), "adaptive is not available in this version for a member of a group: leave it out of %s", g.policy.Name)
	}

	// Members are charged or left alone in one step, so a member must neither fail half-way nor count what the group denies.
	switch {
	case algorithms.TraitsOf(s.Algorithm).Shape == algorithms.SlidingLog:
		c.fail(at.orNone("algorithm"), "%s is no member of group %s: its entries can be lost or refused when another member is "+
			"charged already; take sliding_window_counter", s.Algorithm.Name(), g.policy.Name)
	case g.policy.Together == algorithms.AllOrNothing:
		c.refuseCounting(g, s, at)
	}
}

// refuseCounting refuses options that have denied charges count, in a group that a denial does not charge. Where an
// expression gives the limit, only the options say so when the file is loaded: each charge would fail.
func (c *compiler) refuseCounting(g *group, s *Side, at places) {
	// Both options write a record when a charge is denied.
	option := ""
	switch {
	case s.options.CountDenied:
		option = "count_denied"
	case s.options.Forget != 0:
		option = "forget"
	default:
		return
	}
	c.fail(at.orNone(option), "group %s is charged all_or_nothing, and a denial charges no member: leave %s out, "+
		"or charge the group until_denied", g.policy.Name, option)
}

// finish makes the sides of a group whose members are all known.
func (c *compiler) finish(g *group) {
	if c.Failed() {
		return
	}
	p := g.policy

	// The members agree on which sides there are: checkMember has seen to it.
	for role := range p.Sides {
		if g.first.Sides[role] != nil {
			p.Sides[role] = groupSide(p, algorithms.Role(role))
		}
	}

	// Limits of expressions are known with a request: its charge is then refused, and no file.
	c.checkIDs(g.node, p)
	for _, side := range p.Sides {
		if side == nil || !side.constant() {
			continue
		}
		if err := side.Algorithm.Validate(algorithms.Limit{}); err != nil {
			c.fail(g.at, "group %s: %s", p.Name, withoutPackage(err))
		}
	}

	// A file may be written a member a day, so one member is no mistake.
	if len(p.Members) == 1 {
		c.warn(g.at, "group %s has one member, and decides like a policy of its own: add the others, or leave the group out", p.Name)
	}
}

// inherited returns the places of a member's fields, with those of the group's first member for what it has left out. A promotion is
// the group's own, and is warned of once.
func (g *group) inherited(fields places) places {
	for _, name := range shared {
		if fields[name] == nil && g.fields[name] != nil && name != "promotion" {
			fields[name] = g.fields[name]
		}
	}
	return fields
}

// dropRepeated removes problems that were noted before: what a group's members have in common is looked at with each of them.
func (p *Problems) dropRepeated(from int) {
	// Copies, because the list is written while it is read.
	known := slices.Clone(p.List[:from])
	p.List = append(p.List[:from], slices.DeleteFunc(slices.Clone(p.List[from:]), func(found Problem) bool {
		return slices.Contains(known, found)
	})...)
}

// unmatched says why the policy does not charge a request: its condition, or those of its members.
func (p *Policy) unmatched() string {
	if p.Members == nil {
		return "when is false: " + strings.TrimSpace(p.when.source)
	}

	reasons := make([]string, len(p.Members))
	for i, m := range p.Members {
		reasons[i] = m.Name + ": " + strings.TrimSpace(m.when.source)
	}
	return "when is false for every member: " + strings.Join(reasons, "; ")
}
