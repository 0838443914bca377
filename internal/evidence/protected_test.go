package evidence

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// What any number of recorders count of protected keys, written in pieces and joined in any order through the form in which it is
// stored, is what one map of all keys has.
func TestProtectedKeysAreCountedExactly(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		fleet := make([]*Recorder, rapid.IntRange(1, 4).Draw(t, "instances"))
		for i := range fleet {
			fleet[i] = NewRecorder(nil)
		}
		want := map[string][2]KeyTally{}
		var pieces []Hour
		write := func(r *Recorder) {
			b := r.Batch(noon, false)
			pieces = append(pieces, HourOf(noon.Unix()/SecondsPerHour, b.Slots))
			r.Written(b)
		}

		for range rapid.IntRange(0, 100).Draw(t, "requests") {
			r := rapid.SampledFrom(fleet).Draw(t, "instance")
			key := fmt.Sprint("k", rapid.IntRange(0, 9).Draw(t, "key"))
			o := [2]algorithms.Observation{
				{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: rapid.Bool().Draw(t, "allowed")}},
				{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: rapid.Bool().Draw(t, "given")}},
			}
			setting := Setting{Cost: 1, Protected: rapid.Bool().Draw(t, "protected"), Enforced: algorithms.Role(rapid.IntRange(0, 1).Draw(t, "enforced"))}
			outcome := r.Observe(key, Hash("test", "p", key), noon, &o, &setting)
			if setting.Protected {
				counts := want[key]
				counts[setting.Enforced][outcome]++
				want[key] = counts
			}
			if rapid.IntRange(0, 20).Draw(t, "writes") == 0 {
				write(r)
			}
		}
		for _, r := range fleet {
			write(r)
		}

		var joined ProtectedKeys
		for len(pieces) > 0 {
			i := rapid.IntRange(0, len(pieces)-1).Draw(t, "next")
			text, err := json.Marshal(packed(&pieces[i]))
			if err != nil {
				t.Fatal(err)
			}
			var p packedHour
			if err := json.Unmarshal(text, &p); err != nil {
				t.Fatal(err)
			}
			h, err := p.unpack(0)
			if err != nil {
				t.Fatal(err)
			}
			before := slices.Clone(joined)
			shared := joined
			joined.Join(h.Protected)
			if !reflect.DeepEqual(shared, before) {
				t.Fatal("a join has changed a list that others may have")
			}
			pieces = slices.Delete(pieces, i, i+1)
		}

		got := map[string][2]KeyTally{}
		for _, k := range joined {
			got[k.Key] = k.Counts
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// Other programs can write to the ledger.
func TestStoredProtectedKeysAreChecked(t *testing.T) {
	many := make(ProtectedKeys, mostListed+1)
	for i := range many {
		many[i].Key = fmt.Sprintf("%04d", i)
	}
	for name, list := range map[string]ProtectedKeys{
		"unordered": {{Key: "b"}, {Key: "a"}}, "twice": {{Key: "a"}, {Key: "a"}}, "too many": many,
		"negative": {{Key: "a", Counts: [2]KeyTally{{}, {NewlyDenied: -1}}}},
		"too much": {{Key: "a", Counts: [2]KeyTally{{AgreeDeny: mostCounted + 1}}}},
	} {
		p := packed(&Hour{Protected: list})
		if _, err := p.unpack(7); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// With a secret no key leaves a recorder in clear, and instances with the same secret agree.
func TestProtectedKeysAreMasked(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	nameOf := func(secret string) string {
		r := NewRecorder([]byte(secret))
		o := [2]algorithms.Observation{{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}, {Status: algorithms.Judged}}
		for _, key := range []string{"alice", "bob", "carol"} {
			r.Observe(key, Hash("test", "p", key), noon, &o, &Setting{Cost: 1, Protected: true})
		}
		list := r.Batch(noon, true).Slots[0].Protected
		if len(list) != 3 || !list.believed() || list.Find(KeyName("alice", []byte(secret))) == nil {
			t.Errorf("with secret %q: %v", secret, list)
		}
		return list[0].Key
	}
	if clear, masked, again, other := nameOf(""), nameOf("s1"), nameOf("s1"), nameOf("s2"); clear != "alice" || masked != again || masked == other {
		t.Errorf("clear %s, masked %s, %s and %s", clear, masked, again, other)
	}
}

// A protected key loses declared differences, and gains them, too. Failed comparisons do not count.
func TestWhatProtectedKeysLose(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	allow, deny := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}, algorithms.Observation{Status: algorithms.Judged}
	failed := algorithms.Observation{Status: algorithms.Failed}
	declared := Setting{Expected: algorithms.Expected{NewlyDenied: true, NewlyAllowed: true}}
	tests := map[string]struct {
		o       [2]algorithms.Observation
		setting Setting
		want    KeyTally
	}{
		"allowed by both":   {[2]algorithms.Observation{allow, allow}, Setting{}, KeyTally{AgreeAllow: 1}},
		"denied by both":    {[2]algorithms.Observation{deny, deny}, Setting{}, KeyTally{AgreeDeny: 1}},
		"newly denied":      {[2]algorithms.Observation{allow, deny}, Setting{}, KeyTally{NewlyDenied: 1}},
		"newly allowed":     {[2]algorithms.Observation{deny, allow}, Setting{}, KeyTally{NewlyAllowed: 1}},
		"declared, allowed": {[2]algorithms.Observation{deny, allow}, declared, KeyTally{NewlyAllowed: 1}},
		"declared":          {[2]algorithms.Observation{allow, deny}, declared, KeyTally{NewlyDenied: 1}},
		"failed":            {[2]algorithms.Observation{allow, failed}, Setting{}, KeyTally{}},
	}

	for name, test := range tests {
		r := NewRecorder(nil)
		test.setting.Cost, test.setting.Protected = 1, true
		r.Observe("k", 7, noon, &test.o, &test.setting)
		var got KeyTally
		for _, k := range r.Batch(noon, true).Slots[0].Protected {
			got.Add(k.Total())
		}
		if got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
