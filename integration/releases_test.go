package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// earlier charges keys as the release before the numbers did, by the scripts that it sent. Both releases are at work
// during a deployment, and after one that was taken back.
type earlier struct {
	t      *testing.T
	client redis.UniversalClient
	pair   *lua.Pair
}

// charge runs the earlier release's script and returns what each side has remaining, -1 if it denies.
func (e earlier) charge(c algorithms.Charge, parts ...string) []int64 {
	e.t.Helper()
	args := []any{c.At.UnixMicro(), 3_600_000, c.Cost}
	var names []string
	for _, side := range c.Sides {
		if !side.Present() {
			continue
		}
		terms, err := side.Algorithm.(algorithms.Termed).Terms(side.Limit)
		if err != nil {
			e.t.Fatal(err)
		}
		args = append(args, parts[len(names)], terms[0], terms[1], terms[2])
		names = append(names, side.Algorithm.Name())
	}

	keys := []string{e.pair.RecordKey(c.Policy, c.Key)}
	reply, err := e.client.Eval(context.Background(), e.script(names), keys, args...).Int64Slice()
	if err != nil {
		e.t.Fatal(err)
	}

	var remaining []int64
	for i := range names {
		if reply[1+5*i] != 1 {
			remaining = append(remaining, -1)
			continue
		}
		remaining = append(remaining, reply[2+5*i])
	}
	return remaining
}

// script puts the earlier release's script for algorithms without a log together.
func (e earlier) script(names []string) string {
	e.t.Helper()
	var b strings.Builder
	file := func(name string) {
		text, err := os.ReadFile(filepath.Join("..", "lua", "testdata", "releases", "2026-11-22", name+".lua"))
		if err != nil {
			e.t.Fatal(err)
		}
		b.Write(text)
	}

	file("prelude")
	for _, name := range names {
		file(name)
	}
	fmt.Fprintf(&b, "local steps, log_keys = {%s}, {0, 0}\n", strings.Join(names, ", "))
	file("pair")
	return b.String()
}

// numbered is a charge of a pair.
func numbered(key string, at int) algorithms.Charge {
	c := charge(key, at, algorithms.FixedWindow{}, algorithms.GCRA{})
	c.Epoch = 7
	return c
}

// only leaves one side in the charge.
func only(c algorithms.Charge, r algorithms.Role) algorithms.Charge {
	c.Sides[r.Other()] = algorithms.Side{}
	c.Enforced = r
	return c
}

// TestTwoReleasesShareARecord holds that either release reads what the other one has written, and that a key which the
// earlier one has charged is apart: that release counts for no number.
func TestTwoReleasesShareARecord(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		old := earlier{t, client, pair}
		fixed := partNameOf(t, pair, client, only(numbered("name 0", 0), algorithms.Authoritative))
		gcra := partNameOf(t, pair, client, only(numbered("name 1", 0), algorithms.Candidate))

		expect := func(what string, c algorithms.Charge, remaining int64, apart bool) [2]algorithms.Observation {
			t.Helper()
			o := evaluate(t, pair, c)[0]
			for r := range o {
				if o[r].Status != algorithms.Absent && (o[r].Err != nil || o[r].Decision.Remaining != remaining || (o[r].Apart != 0) != apart) {
					t.Errorf("%s: %s side: %+v, want %d remaining, apart %t", what, algorithms.Role(r), o[r], remaining, apart)
				}
			}
			return o
		}

		// The window and the bucket have both 10, and no time goes by.
		expect("the first charge", numbered("both", 0), 9, false)
		expect("the second charge", numbered("both", 0), 8, false)
		if got := old.charge(numbered("both", 0), fixed, gcra); got[0] != 7 || got[1] != 7 {
			t.Errorf("the earlier release finds %d and %d remaining in a numbered record, want 7", got[0], got[1])
		}
		expect("after a charge of the earlier release", numbered("both", 0), 6, true)
		expect("and from then on", numbered("both", 0), 5, true)

		old.charge(only(numbered("both", 0), algorithms.Authoritative), fixed)
		if o := evaluate(t, pair, numbered("both", 0))[0]; o[0].Decision.Remaining != 3 || o[1].Decision.Remaining != 4 || o[0].Apart == 0 {
			t.Errorf("after a charge of one side by the earlier release: %+v", o)
		}

		if got := old.charge(numbered("old first", 0), fixed, gcra); got[0] != 9 || got[1] != 9 {
			t.Errorf("the earlier release has %d and %d remaining of 10", got[0], got[1])
		}
		expect("a record of the earlier release", numbered("old first", 0), 8, true)

		peek := numbered("peek", 0)
		expect("before a peek", peek, 9, false)
		peek.Cost = 0
		old.charge(peek, fixed, gcra)
		expect("a peek of the earlier release changes nothing", numbered("peek", 0), 8, false)
	})
}

// TestTwoReleasesShareARecordOfOneSide is the same where the sides are in two stores, so that each record has one part.
func TestTwoReleasesShareARecordOfOneSide(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		old := earlier{t, client, pair}
		fixed := partNameOf(t, pair, client, only(numbered("name 0", 0), algorithms.Authoritative))

		lead := func(at int) algorithms.Charge { return only(numbered("k", at), algorithms.Authoritative) }
		first := evaluate(t, pair, lead(0))[0][0]
		second := evaluate(t, pair, lead(1))[0][0]
		if second.Number != first.Number.Next() {
			t.Errorf("after the number %x comes %x", first.Number, second.Number)
		}

		if got := old.charge(lead(2), fixed); got[0] != 7 {
			t.Errorf("the earlier release finds %d remaining, want 7", got[0])
		}
		last := second.Number.Next()
		o := evaluate(t, pair, lead(3))[0][0]
		if o.Decision.Remaining != 6 || o.Number == last || last.Behind(o.Number) || o.Number.Behind(last) {
			t.Errorf("after a charge of the earlier release: %+v, number %x as if that had counted", o, o.Number)
		}

		// The other side of a leading one with a new number is found apart.
		follow := only(numbered("f", 0), algorithms.Candidate)
		follow.Lead = algorithms.Lead{Number: first.Number, Unused: true, Counted: true}
		evaluate(t, pair, follow)
		gcra := partNameOf(t, pair, client, only(numbered("name 1", 0), algorithms.Candidate))
		old.charge(only(numbered("f", 0), algorithms.Candidate), gcra)
		follow.Lead = algorithms.Lead{Number: first.Number.Next(), Counted: true}
		if o := evaluate(t, pair, follow)[0][1]; o.Decision.Remaining != 7 || o.Apart == 0 {
			t.Errorf("a side that follows after a charge of the earlier release: %+v, want it apart", o)
		}
	})
}
