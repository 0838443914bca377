package algorithms_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
)

// perSecondAndMinute are two limits that many services charge together.
func perSecondAndMinute(charge algorithms.GroupCharge) *algorithms.Group {
	return &algorithms.Group{Charge: charge, Members: []algorithms.Member{
		{Name: "minute", Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 4, Window: time.Minute}},
		{Name: "second", Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 2, Window: time.Second}},
	}}
}

// Two limits of one client as one limiter. The third request is denied by the second limit. All or nothing, it does not
// count for the first limit; in order, it does.
func ExampleGroup() {
	pair := algorithms.NewMemory(algorithms.MemoryConfig{})
	charge := algorithms.Charge{Policy: "client", Key: "acme", Cost: 1, At: noon, Sides: [2]algorithms.Side{
		{ID: "today", Algorithm: perSecondAndMinute(algorithms.AllOrNothing)},
		{ID: "tomorrow", Algorithm: perSecondAndMinute(algorithms.UntilDenied)},
	}}

	for range 4 {
		into := make([][2]algorithms.Observation, 1)
		if err := pair.Evaluate(context.Background(), []algorithms.Charge{charge}, into); err != nil {
			fmt.Println(err)
		}
		for role, o := range into[0] {
			d := o.Decision
			fmt.Printf("%s: allowed %t by %s, %d of %d, retry after %s\n",
				algorithms.Role(role), d.Allowed, o.Member, d.Remaining, d.Limit, d.RetryAfter)
		}
	}

	// Output:
	// authoritative: allowed true by second, 1 of 2, retry after 0s
	// candidate: allowed true by second, 1 of 2, retry after 0s
	// authoritative: allowed true by second, 0 of 2, retry after 0s
	// candidate: allowed true by second, 0 of 2, retry after 0s
	// authoritative: allowed false by second, 0 of 2, retry after 1s
	// candidate: allowed false by second, 0 of 2, retry after 1s
	// authoritative: allowed false by second, 0 of 2, retry after 1s
	// candidate: allowed false by second, 0 of 2, retry after 1m0s
}

// group returns a charge of one side that is a group.
func groupCharge(at time.Time, g *algorithms.Group) algorithms.Charge {
	return algorithms.Charge{Policy: "p", Key: "k", Cost: 1, At: at, Sides: [2]algorithms.Side{{ID: "g", Algorithm: g}}}
}

// TestMembersKeepTheirStates charges a group of changing members: a member that a charge does not name keeps its state, and the
// record is not idle before that member is.
func TestMembersKeepTheirStates(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{})
	both := perSecondAndMinute(algorithms.AllOrNothing)
	second := &algorithms.Group{Members: both.Members[1:]}
	minute := &algorithms.Group{Members: both.Members[:1]}

	for _, g := range []*algorithms.Group{both, both, second, minute} {
		one(t, m, groupCharge(noon, g))
	}
	if o := one(t, m, groupCharge(noon, minute))[0]; !o.Decision.Allowed || o.Decision.Remaining != 0 || o.Unused {
		t.Errorf("the fourth charge of a minute: %+v, want it admitted and nothing left", o)
	}
	if o := one(t, m, groupCharge(noon, both))[0]; o.Decision.Allowed || o.Member != "minute" || o.Decision.RetryAfter != time.Minute {
		t.Errorf("the fifth charge: %+v, want it denied by the minute", o)
	}
}

// TestGroupRefuses lists what a group cannot be made of.
func TestGroupRefuses(t *testing.T) {
	limit := algorithms.Limit{Requests: 2, Window: time.Second}
	counted := limit
	counted.CountDenied = true
	member := func(name string, a algorithms.Algorithm) algorithms.Member {
		return algorithms.Member{Name: name, Algorithm: a, Limit: limit}
	}
	window := algorithms.FixedWindow{}

	for want, g := range map[string]algorithms.Group{
		"0 members":                   {},
		"9 members":                   {Members: make([]algorithms.Member, 9)},
		"two members":                 {Members: []algorithms.Member{member("a", window), member("a", algorithms.GCRA{})}},
		"no algorithm":                {Members: []algorithms.Member{member("a", nil)}},
		"a group is no":               {Members: []algorithms.Member{member("a", &algorithms.Group{})}},
		"sliding_window_log":          {Members: []algorithms.Member{member("a", algorithms.SlidingWindowLog{})}},
		"count_denied and forget are": {Members: []algorithms.Member{{Name: "a", Algorithm: window, Limit: counted}}},
		"at least 1us":                {Members: []algorithms.Member{{Name: "a", Algorithm: window}}},
	} {
		err := g.Validate(algorithms.Limit{})
		if !errors.Is(err, algorithms.ErrLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		charge := groupCharge(noon, &g)
		charge.Cost = -1
		if o := one(t, algorithms.NewMemory(algorithms.MemoryConfig{}), charge)[0]; !errors.Is(o.Err, algorithms.ErrLimit) {
			t.Errorf("a charge: %+v, want the limit refused, not the cost", o)
		}
	}
}

// TestSidesAreBothGroupsOrNone holds that a charge cannot mix the two.
func TestSidesAreBothGroupsOrNone(t *testing.T) {
	c := groupCharge(noon, perSecondAndMinute(algorithms.AllOrNothing))
	c.Sides[1] = algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1, Window: time.Second}}

	for _, o := range one(t, algorithms.NewMemory(algorithms.MemoryConfig{}), c) {
		if !errors.Is(o.Err, algorithms.ErrOneGroup) || !errors.Is(c.CheckSides(), algorithms.ErrOneGroup) {
			t.Errorf("%+v, want ErrOneGroup", o)
		}
	}
}

// TestRecordKeepsMembers charges members in turn, more than a side keeps.
func TestRecordKeepsMembers(t *testing.T) {
	limitertest.RecordKeepsMembers(t, algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}))
}

func TestGroupsKeepTheLaws(t *testing.T) {
	limitertest.RunGroups(t, func(testing.TB) algorithms.Pair {
		return algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	})
}

// TestFullMemoryKeepsALimitedMember fills a store. A key whose limited member the last charge did not name is not displaced: that would
// pardon it. Nor is it dropped as idle.
func TestFullMemoryKeepsALimitedMember(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 3})
	both := perSecondAndMinute(algorithms.UntilDenied)
	second := &algorithms.Group{Members: both.Members[1:]}
	charge := func(key string, cost int64, at time.Time, g *algorithms.Group) algorithms.Observation {
		c := groupCharge(at, g)
		c.Key, c.Cost = key, cost
		c.Sides[1] = algorithms.Side{ID: "h", Algorithm: g}
		return one(t, m, c)[0]
	}

	charge("limited", 2, noon, both)
	charge("limited", 2, noon.Add(time.Second), both)
	charge("limited", 1, noon.Add(2*time.Second), second)

	later := noon.Add(10 * time.Second)
	for i := range 20 {
		charge(fmt.Sprint("new ", i), 1, later, both)
	}
	if o := charge("limited", 1, later, both); o.Decision.Allowed || o.Member != "minute" || o.Degraded {
		t.Errorf("%+v, want the key still denied by the minute", o)
	}
	if s := m.Stats(); s.Keys > 3 || s.Evicted == 0 {
		t.Errorf("stats %+v, want at most 3 keys and some evicted", s)
	}
}

// TestGroupCostsNoAllocation charges a key that is known, in the way that most charges take.
func TestGroupCostsNoAllocation(t *testing.T) {
	for _, charge := range []algorithms.GroupCharge{algorithms.AllOrNothing, algorithms.UntilDenied} {
		m := algorithms.NewMemory(algorithms.MemoryConfig{})
		charges := []algorithms.Charge{groupCharge(noon, perSecondAndMinute(charge))}
		into := make([][2]algorithms.Observation, 1)
		judge := func() { _ = m.Evaluate(context.Background(), charges, into) }

		judge()
		if n := testing.AllocsPerRun(100, judge); n > 0 || into[0][0].Decision.Allowed {
			t.Errorf("%s: %v allocations for a charge, the last one %+v", charge, n, into[0][0])
		}
	}
}
