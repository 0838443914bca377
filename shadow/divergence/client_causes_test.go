package divergence

import (
	"fmt"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// The causes of what each client loses add up over instances, batches and the form in which they are stored. A release that does
// not know them leaves them out, and nothing else.
func TestCausesOfClientsAddUp(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o := [2]algorithms.Observation{{Decision: algorithms.Decision{Allowed: true}}, {}}
	unknown := Setting{Cost: 1, Protected: true, Shapes: [2]algorithms.Shape{algorithms.UnknownShape, algorithms.UnknownShape}}
	fleet := []*Recorder{NewRecorder(nil), NewRecorder(nil)}

	var joined, old Hour
	for piece := range 3 {
		for _, r := range fleet {
			for range 4 {
				r.Observe("alice", Hash("test", "p", "alice"), noon, &o, &unknown)
			}
			r.Observe("bob", Hash("test", "p", "bob"), noon, &o, &unknown)
			for _, h := range r.Snapshot(noon).Record.Open {
				p := packed(&h)
				again, err := p.unpack(h.Unix)
				if err != nil {
					t.Fatal(err)
				}
				if piece == 2 { // a record has what came since the last fold: all of it
					joined.join(&again)
				}

				p.ClientCauses = nil
				without, err := p.unpack(h.Unix)
				if err != nil {
					t.Fatal(err)
				}
				old.join(&without)
			}
			r.Commit(&Snapshot{}, noon)
		}
	}

	got := map[string]int64{}
	for i := range joined.Clients.List {
		c := &joined.Clients.List[i]
		got[c.Name] = c.Causes[OtherCause]
		if cause, share := c.Causes.Most(); cause != OtherCause || share != 1 || c.Total().Lost != got[c.Name] {
			t.Errorf("%s: %s explains %g of %+v", c.Name, cause, share, c.Total())
		}
	}
	if fmt.Sprint(got) != "map[alice:24 bob:6]" {
		t.Errorf("causes of %v, want 24 and 6", got)
	}
	if c := old.Clients.List[0]; c.Causes != nil || c.Name == "" {
		t.Errorf("without causes: %+v", c)
	}
	if joined.Protected.List[0].Causes != nil {
		t.Errorf("a protected key has %v: its declared losses have none", joined.Protected.List[0].Causes)
	}
}

// Other programs can write to the ledger.
func TestCausesAreChecked(t *testing.T) {
	c := Clients{List: []Client{{Hash: 1}}}
	for _, p := range []packedCauses{{Client: -1}, {Client: 1}, {Lost: ClientCauses{-1}}, {Lost: ClientCauses{mostCounted + 1}}} {
		if err := unpackCauses([]packedCauses{p}, &c); err == nil {
			t.Errorf("%+v is no error", p)
		}
	}
}

// Joined counts are new ones: lists share them.
func TestJoinedCausesChangeNoOther(t *testing.T) {
	a, b := &ClientCauses{BurstShape: 3, LimitValue: 1}, &ClientCauses{BurstShape: 2}
	sum := joinCauses(a, b)
	if *sum != (ClientCauses{BurstShape: 5, LimitValue: 1}) || a[BurstShape] != 3 || b[BurstShape] != 2 {
		t.Errorf("%v of %v and %v", sum, a, b)
	}
	if joinCauses(a, nil) != a || joinCauses(nil, b) != b || joinCauses(nil, nil) != nil {
		t.Error("a missing count is not the other one")
	}

	if cause, share := sum.Most(); cause != BurstShape || share != 5.0/6 {
		t.Errorf("%s explains %g", cause, share)
	}
	if _, share := (*ClientCauses)(nil).Most(); share != 0 {
		t.Errorf("without counts %g", share)
	}
}
