package limitertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// groupLaws are checked for every pair with groups that are drawn at random. Those before the blank line are laws of
// every limiter. A group's answers keep them: the least rest and the longest wait of several limits are exact again.
var groupLaws = append(lawsNamed("G3_cheaper_is_allowed", "G4_denial_leaves_no_trace", "G5_peek_is_pure", "G6_retry_after_is_exact",
	"G7_keys_are_apart", "G8_remaining_is_exact", "G9_reset_after_is_exact", "G12_deterministic", "G13_concurrent", "over_capacity_is_never",
	"twins_agree", "twins_meet_again"),

	law{"no_member_admits_more", "no interval admits more than the bound of any member", noMemberAdmitsMore},
	law{"a_group_is_its_members", "a group answers as its members would, each in a policy of its own", groupIsItsMembers},
	law{"a_group_of_one_is_its_member", "a group of one member decides as that limit alone", groupOfOne},
	law{"order_changes_no_decision", "where all or nothing is charged, the order of the members decides nothing", orderDecidesNothing},
)

// lawsNamed returns the laws of those names.
func lawsNamed(names ...string) (list []law) {
	for _, l := range laws {
		if slices.Contains(names, l.name) {
			list = append(list, l)
		}
	}
	return list
}

// RunGroups checks the laws of groups in one pair, as Run does those of one algorithm.
func RunGroups(t *testing.T, open func(testing.TB) algorithms.Pair) {
	for _, l := range groupLaws {
		t.Run(l.name, func(t *testing.T) {
			pair := open(t)
			rapid.Check(t, func(rt *rapid.T) {
				// The sentence says what the failing program has disproved.
				defer func() {
					if rt.Failed() {
						rt.Logf("broken law of groups: %s", l.sentence)
					}
				}()

				trial := &trial{T: rt, law: l, pair: pair, policy: "groups"}
				trial.drawGroup()
				l.check(trial)
			})
		})
	}
}

// drawGroup makes a group of the trial's subject. The trial's limit becomes the limit of the member with the least capacity, so
// that both have the same one.
func (t *trial) drawGroup() {
	g := &algorithms.Group{Charge: algorithms.GroupCharge(rapid.IntRange(0, 1).Draw(t.T, "charge"))}
	if t.law.name == "G4_denial_leaves_no_trace" {
		g.Charge = algorithms.AllOrNothing
	}

	// Members of one group may be of different algorithms. One that counts denied charges, or forgets, changes by a
	// denial, which such a group must not.
	for i := range rapid.IntRange(2, 4).Draw(t.T, "members") {
		member := trial{T: t.T, law: t.law}
		member.subject.Algorithm = rapid.SampledFrom(algorithms.All).Filter(canBeMember).Draw(t.T, "algorithm")
		member.drawLimit()
		if g.Charge == algorithms.AllOrNothing {
			member.limit.CountDenied, member.limit.Forget = false, 0
		}
		g.Members = append(g.Members, algorithms.Member{Name: fmt.Sprint("m", i), Algorithm: member.subject.Algorithm, Limit: member.limit})

		if i == 0 || member.limit.Capacity() < t.limit.Capacity() {
			t.limit = member.limit
		}
	}
	t.subject.Algorithm = g
}

// canBeMember reports whether a group takes the algorithm.
func canBeMember(a algorithms.Algorithm) bool {
	return algorithms.TraitsOf(a).Shape != algorithms.SlidingLog
}

// group returns the trial's group, nil where the subject is one algorithm.
func (t *trial) group() *algorithms.Group {
	g, _ := t.subject.Algorithm.(*algorithms.Group)
	return g
}

// noMemberAdmitsMore finds a group that forgets to charge a member, or to ask it.
func noMemberAdmitsMore(t *trial) {
	for _, m := range t.group().Members {
		bound := *t
		bound.subject.Algorithm, bound.limit = m.Algorithm, m.Limit
		events := t.drawEvents()
		bound.holdsBound(events, t.judge(events...))
	}
}

// groupOfOne compares two pairs' worth of code: the record of a group, and the one of a single limit.
func groupOfOne(t *trial) {
	events := t.drawEvents()
	m := t.group().Members[0]
	t.subject.Algorithm = &algorithms.Group{Charge: t.group().Charge, Members: []algorithms.Member{m}}
	got := t.judge(events...)

	t.subject.Algorithm, t.limit = m.Algorithm, m.Limit
	t.equal(t.judge(events...), got)
}

// orderDecidesNothing finds a member that is charged before another one has been asked. Which of several members supplies
// the limit of an answer does depend on their order.
func orderDecidesNothing(t *trial) {
	// The group is all or nothing, and such a group takes no member that a denial changes.
	events := t.drawEvents()
	g := &algorithms.Group{Members: t.group().Members}
	for i := range g.Members {
		g.Members[i].Limit.CountDenied, g.Members[i].Limit.Forget = false, 0
	}
	t.subject.Algorithm = g
	want := t.judge(events...)

	t.subject.Algorithm = &algorithms.Group{Members: rapid.Permutation(g.Members).Draw(t.T, "order")}

	// The member that speaks for the group may be another one of equal rank, with another limit.
	got := t.judge(events...)
	for i := range got {
		got[i].Limit = want[i].Limit
	}
	t.equal(want, got)
}

// groupIsItsMembers charges the members one by one, as a program does that has no groups: each has a policy of its own.
func groupIsItsMembers(t *trial) {
	events := t.drawEvents()
	g := t.group()
	policies := make([]string, len(g.Members))
	for i := range policies {
		policies[i] = freshName()
	}

	for n, got := range t.judge(events...) {
		// All or nothing: each member is asked first whether it would admit the cost, and none is charged unless all would.
		e := events[n]
		allowed := true
		if g.Charge == algorithms.AllOrNothing {
			for i, rest := range t.look(policies, e.at) {
				allowed = allowed && (e.cost == 0 || e.cost <= rest.Remaining && g.Members[i].Limit.Requests > 0)
			}
		}

		// In order: each member is charged until one denies.
		for i := 0; i < len(policies) && allowed; i++ {
			allowed = t.chargeMember(i, policies[i], event{e.at, e.cost}).Allowed
		}

		// The group has the least that any member has left, and is unused when the last one is.
		want := algorithms.Decision{Allowed: allowed, Remaining: got.Remaining}
		for i, rest := range t.look(policies, e.at) {
			want.ResetAfter = max(want.ResetAfter, rest.ResetAfter)
			if i == 0 || rest.Remaining < want.Remaining {
				want.Remaining = rest.Remaining
			}
		}
		if got.Allowed != want.Allowed || got.Remaining != want.Remaining || got.ResetAfter != want.ResetAfter {
			t.Fatalf("event %d of %+v under %+v\n  got  %+v\n  its members one by one: %+v", n, events, g, got, want)
		}
	}
}

// look returns what a look at the key says in each member's own policy.
func (t *trial) look(policies []string, at int64) (rests []algorithms.Decision) {
	for i, policy := range policies {
		rests = append(rests, t.chargeMember(i, policy, event{at, 0}))
	}
	return rests
}

// chargeMember charges the key in the policy of one member.
func (t *trial) chargeMember(i int, policy string, e event) algorithms.Decision {
	m := &t.group().Members[i]
	charge := algorithms.Charge{Policy: policy, Key: lawKey, Cost: e.cost, At: time.UnixMicro(e.at),
		Sides: [2]algorithms.Side{{Algorithm: m.Algorithm, Limit: m.Limit}}}

	var into [1][2]algorithms.Observation
	if err := t.pair.Evaluate(context.Background(), []algorithms.Charge{charge}, into[:]); err != nil || into[0][0].Err != nil {
		t.Fatalf("member %d: %v, %v", i, err, into[0][0].Err)
	}
	return into[0][0].Decision
}
