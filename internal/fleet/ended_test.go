package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// An instance whose fingerprint was completed goes on with the candidate while the fleet has another
// one, also if it starts then: its authoritative has not been charged since. One whose fingerprint
// was rolled back does not.
func TestCompletedFingerprintStaysWithTheCandidate(t *testing.T) {
	for as, want := range map[stages.Stage]algorithms.Role{
		stages.Completed:  algorithms.Candidate,
		stages.RolledBack: algorithms.Authoritative,
		"":                algorithms.Authoritative,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := stages.NewMemoryStore()
			next := stages.State{
				Version: stages.Version{Term: 1, Seq: 7}, Stage: stages.Canary, Percent: 50, Fingerprint: "f", Since: time.Now(),
			}
			if as != "" {
				next.Past = []stages.Past{{Fingerprint: "e", Stage: as}}
			}
			must(t, store.Put(t.Context(), "p", next, stages.Condition{}))

			n := &node{}
			n.Fleet, n.Policy = idleOn(store, "a")
			must(t, n.Fleet.poller.poll(t.Context()))
			if got := n.enforced(at(0)); got != want {
				t.Errorf("e ended as %q: an instance that starts enforces the %s, want the %s", as, got, want)
			}

			// A reload to the next file, and back to the one before.
			n.use("f", 0)
			n.use("e", 0)
			if got := n.enforced(at(0)); got != want {
				t.Errorf("e ended as %q: an instance that reloads enforces the %s, want the %s", as, got, want)
			}
		})
	}
}

// A red button is pressed, and its order stored. A failover loses the rollback before any
// instance has polled again: the one that ordered it knows it, and writes it again.
func TestStoredOrderSurvivesAFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, replica := stages.NewMemoryStore(), stages.NewMemoryStore()
		store := &cuttable{Store: primary}
		f, p := idleOn(store, "a")
		f.Button.changed = f.button.ordered
		must(t, f.poller.poll(t.Context()))
		_, err := stages.Advance(t.Context(), primary, "p", stages.Step{Stage: stages.Promoted}, stages.Order{})
		must(t, err)
		must(t, f.poller.poll(t.Context()))
		must(t, replica.Put(t.Context(), "p", *p.Stage.State(), stages.Condition{}))

		f.Button.Press(true)
		must(t, f.poller.poll(t.Context()))
		if left := f.button.orders.waiting(); len(left) > 0 {
			t.Fatalf("the order is not stored: %v", left)
		}

		store.Store = replica
		must(t, f.poller.poll(t.Context()))
		states, err := replica.States(t.Context(), []string{"p"})
		if err != nil || states[0].Stage != stages.RolledBack {
			t.Errorf("the new primary has %s, %v, want the rollback", states[0], err)
		}
	})
}
