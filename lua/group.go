package lua

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// prepareGroup is prepare for a charge whose sides are groups. A member that is refused fails its side alone.
func (p *Pair) prepareGroup(c *algorithms.Charge, record string, into *[2]algorithms.Observation) (call, bool) {
	refused := checkCharge(c)
	out := call{charge: c, into: into, group: true}
	if record == "" {
		record = p.RecordKey(c.Policy, c.Key)
	}

	// The enforced side comes first, as in prepare.
	var functions []string
	for _, r := range [2]algorithms.Role{c.Enforced, c.Enforced.Other()} {
		side := &c.Sides[r]
		if !side.Present() {
			into[r] = algorithms.Unjudged(algorithms.Absent)
			continue
		}

		// A side with an error has its answer here, and the other one is judged without it: a candidate's
		// mistake must not fail the authoritative.
		err := side.Validate()
		if err == nil {
			err = refused
		}
		if err == nil {
			err = checkMembers(side.Group())
		}
		if err != nil {
			into[r] = algorithms.Failure(err)
			continue
		}

		out.roles[out.sides] = r
		out.sides++
		functions = functionsOf(functions, side.Group())
	}
	if out.sides == 0 {
		return call{}, false
	}

	// In order and once each, so that groups of the same algorithms share a script, whatever the order of their members.
	slices.Sort(functions)
	functions = slices.Compact(functions)
	out.script = p.scripts.ofGroup(functions)
	out.args = p.groupArguments(c, record, out.order(), functions)
	return out, true
}

// checkMembers refuses members that have no script.
func checkMembers(g *algorithms.Group) error {
	for i := range g.Members {
		side := sideOf(&g.Members[i])
		if _, _, _, err := termsOf(&side); err != nil {
			return err
		}
	}
	return nil
}

// sideOf returns the member as a side of its own, to which the rules of sides apply.
func sideOf(m *algorithms.Member) algorithms.Side {
	return algorithms.Side{ID: m.Name, Algorithm: m.Algorithm, Limit: m.Limit}
}

// functionsOf adds the names of the Lua functions that judge the group's members. A member that counts denied charges needs
// the function of one that does not, too: it says how long a cost has to wait, and counts nothing.
func functionsOf(functions []string, g *algorithms.Group) []string {
	for i := range g.Members {
		side := sideOf(&g.Members[i])
		name, known := stepOf(&side)
		functions = append(functions, name)
		if known.counts {
			functions = append(functions, plainOf(&side))
		}
	}
	return functions
}

// plainOf returns the name of the Lua function that judges a side as if denied charges did not count.
func plainOf(s *algorithms.Side) string {
	name, _ := stepOf(s)
	return strings.TrimSuffix(name, "_counted")
}

// groupArguments returns a command of group.lua, without its first two arguments.
func (p *Pair) groupArguments(c *algorithms.Charge, record string, roles []algorithms.Role, functions []string) []any {
	// What belongs to the whole charge. A group's script takes any number of members, so their number is told.
	at, leastTTL := instantOf(c)
	args := append(make([]any, 0, 64), nil, nil, 1, record, at, leastTTL, min(c.Cost, maxCost), len(roles))

	// "" stands for no epoch, and for no predecessor: 0 is a number that a charge can have.
	epoch, lead := any(""), any("")
	if c.Epoch != 0 {
		epoch = int64(algorithms.EpochBase(c.Epoch))
	}
	if c.Follows() {
		lead = int64(c.Lead.Number)
	}
	waits := c.Lead.Patient && !c.Lead.Unused
	args = append(args, epoch, lead, flag(c.Lead.Counted), flag(c.Lead.Unused), flag(waits))

	// What belongs to each side, and then to each of its members. A member names its step by the place among the script's
	// functions, from 1 on as Lua counts.
	for _, r := range roles {
		side := &c.Sides[r]
		g := side.Group()
		args = append(args, groupPart(p.partName(side.Name(), g.Name())), flag(g.Charge == algorithms.AllOrNothing), len(g.Members))
		for i := range g.Members {
			member := sideOf(&g.Members[i])
			name, row, terms, _ := termsOf(&member) // checkMembers has found no error
			step, _ := slices.BinarySearch(functions, name)
			part := p.partName(side.Name()+"\x00"+member.ID, member.Layout())
			args = append(args, part, step+1, terms[0], terms[1], terms[2], row.fourth(&member, terms[3], c.Key))
		}
	}
	return args
}

// groupPart returns the name of a side's part in the record of a group. Names of members are in lower case, so a G tells the
// two apart.
func groupPart(part string) string { return "G" + part[1:] }

// ofGroup returns the script of groups whose members are judged by those functions, which are in order and differ.
func (s *scripts) ofGroup(functions []string) *script {
	key := strings.Join(functions, " ")
	if known, ok := s.known.Load(key); ok {
		return known.(*script)
	}
	return s.keep(key, groupText(functions))
}

// groupText puts a script of groups together.
func groupText(functions []string) string {
	// Four tables of one length: the function of each step, the place of the one that judges as if denied charges did
	// not count, and two of the step's traits.
	files := []string{"prelude"}
	var steps, plain, counts, keeps []string
	for i, name := range functions {
		known, without := row(name), i
		if known.counts {
			without, _ = slices.BinarySearch(functions, strings.TrimSuffix(name, "_counted"))
		}
		files = append(files, known.files...)
		steps = append(steps, cmp.Or(known.function, name))
		plain = append(plain, strconv.Itoa(without+1))
		counts = append(counts, strconv.FormatBool(known.counts))
		keeps = append(keeps, strconv.FormatBool(known.keepsPhase))
	}

	// Several steps need one file, which Redis would define again in each call.
	var b strings.Builder
	for i, file := range files {
		if !slices.Contains(files[:i], file) {
			b.WriteString(sourceOf(file))
		}
	}
	fmt.Fprintf(&b, "local functions, plain, counts_denied, keeps_phase = {%s}, {%s}, {%s}, {%s}\n",
		strings.Join(steps, ", "), strings.Join(plain, ", "), strings.Join(counts, ", "), strings.Join(keeps, ", "))
	b.WriteString(sourceOf("group"))
	return b.String()
}

// observeGroup adds what the reply says of a side that is a group.
func (c *call) observeGroup(r algorithms.Role, told [2]int64, o *algorithms.Observation) {
	// speaks is the member that the decision is of: the one that denied, or the one with the least left. Redis may lie,
	// so a place outside of the group is an error and no panic.
	speaks, flags := told[0], told[1]
	members := c.charge.Sides[r].Group().Members
	if speaks < 1 || speaks > int64(len(members)) {
		o.Err = ErrReply
		return
	}

	m := &members[speaks-1]
	o.Member, o.Decision.Limit = m.Name, m.Limit.Capacity()
	o.Unused, o.Partial = flags&1 != 0, flags&2 != 0
}
