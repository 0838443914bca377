package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/lua"
)

// groupOf returns a side whose group has those windows, each with a limit of ten.
func groupOf(id string, windows ...time.Duration) algorithms.Side {
	g := &algorithms.Group{}
	for _, w := range windows {
		g.Members = append(g.Members, algorithms.Member{Name: w.String(), Algorithm: algorithms.FixedWindowAnchored{},
			Limit: algorithms.Limit{Requests: 10, Window: w}})
	}
	return algorithms.Side{ID: id, Algorithm: g}
}

// TestRecordKeepsMembers charges members in turn, more than a side keeps: the record has room for two sides of eight.
func TestRecordKeepsMembers(t *testing.T) {
	server := miniredis.RunT(t)
	pair := newPair(t, server.Addr())
	limitertest.RecordKeepsMembers(t, pair)

	// Eight more, none of which the sides know.
	windows := make([]time.Duration, algorithms.MaxMembers)
	for i := range windows {
		windows[i] = time.Duration(1+i) * time.Hour
	}
	evaluate(t, pair, algorithms.Charge{Policy: "members", Key: "k", Cost: 1, At: time.Unix(1_800_000_000, 0),
		Sides: [2]algorithms.Side{groupOf("a", windows...), groupOf("b", windows...)}})

	record, err := server.Get(pair.RecordKey("members", "k"))
	if parts := strings.Count(record, "\n"); err != nil || parts != 2*(1+algorithms.MaxMembers) {
		t.Errorf("the record has %d parts, want two sides with eight members each (%v)", parts, err)
	}
}

// TestRecordLivesAsLongAsItsLongestMember charges both members of a group, and then the one with the short window alone: the record
// stays until the other one is unused.
func TestRecordLivesAsLongAsItsLongestMember(t *testing.T) {
	redis := miniredis.RunT(t)
	pair := newPair(t, redis.Addr())
	both := groupOf("a", time.Second, time.Hour)
	short := groupOf("a", time.Second)

	for _, side := range []algorithms.Side{both, short, short} {
		evaluate(t, pair, algorithms.Charge{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Side{side}})
	}
	if ttl := redis.TTL(pair.RecordKey("p", "k")); ttl < 59*time.Minute {
		t.Errorf("the record lives %s, want an hour", ttl)
	}
}

// TestBrokenPartOfAGroup breaks each part of a record in turn. A member that cannot be read starts afresh; nothing else
// does, but that the side whose own part is broken has no number: the sides are apart then.
func TestBrokenPartOfAGroup(t *testing.T) {
	server := miniredis.RunT(t)
	pair := newPair(t, server.Addr())
	c := algorithms.Charge{Policy: "p", Cost: 1, Epoch: 7, At: time.Unix(1_800_000_000, 0),
		Sides: [2]algorithms.Side{groupOf("a", time.Second, time.Hour), groupOf("b", time.Second, time.Hour)}}

	for part, want := range [][2]int64{{6, 6}, {6, 6}, {6, 6}, {6, 6}, {6, 6}, {6, 6}} {
		c.Key = fmt.Sprint(part)
		evaluate(t, pair, c, c, c)
		record := pair.RecordKey("p", c.Key)
		text, err := server.Get(record)
		if err != nil {
			t.Fatal(err)
		}

		parts := strings.SplitAfter(text, "\n")
		if len(parts) != 7 {
			t.Fatalf("the record is %q, want six parts", text)
		}
		parts[part] = parts[part][:9] + "garbage\n"
		server.Set(record, strings.Join(parts, ""))

		// Of two members with one limit the other one still knows what was spent.
		o := evaluate(t, pair, c)[0]
		if got := [2]int64{o[0].Decision.Remaining, o[1].Decision.Remaining}; o[0].Err != nil || o[1].Err != nil || got != want {
			t.Errorf("part %d broken: %+v, want %v remaining", part, o, want)
		}
		if apart := part%3 == 0; apart != (o[0].Apart != 0) {
			t.Errorf("part %d broken: apart is %d", part, o[0].Apart)
		}
	}
}

// TestRefusedMemberFailsItsSideAlone gives one side a member that cannot be judged.
func TestRefusedMemberFailsItsSideAlone(t *testing.T) {
	pair := newPair(t, miniredis.RunT(t).Addr())
	c := algorithms.Charge{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Side{groupOf("a", time.Second), groupOf("b", time.Second, 0)}}

	if o := evaluate(t, pair, c)[0]; o[0].Err != nil || o[0].Member != "1s" || o[1].Status != algorithms.Failed {
		t.Errorf("%+v, want the candidate failed alone", o)
	}
	if !lua.HasScript(c.Sides[0].Algorithm) || lua.HasScript(&algorithms.Group{Members: []algorithms.Member{{Algorithm: foreign{}}}}) {
		t.Error("a group has a script if its members have")
	}

	c.Sides[1] = algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1, Window: time.Second}}
	if o := evaluate(t, pair, c)[0]; o[0].Err == nil || o[1].Err == nil {
		t.Errorf("a group beside a single limit: %+v", o)
	}
}
