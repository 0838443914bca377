package stages

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// counted is a ledger that counts the reads of slots.
type counted struct {
	evidence.Ledger
	reads int
}

func (l *counted) Slots(ctx context.Context, id evidence.ID, from, since int64) ([]evidence.Slot, int64, error) {
	l.reads++
	return l.Ledger.Slots(ctx, id, from, since)
}

// The evidence of a policy that no instance has had for longer than a ledger remembers is read
// once. It is read again as soon as an instance has the policy.
func TestAbandonedPoliciesAreNotRead(t *testing.T) {
	for _, tt := range []struct {
		age  time.Duration
		read bool
	}{{33 * 24 * time.Hour, false}, {31 * 24 * time.Hour, true}} {
		ledger, store := &counted{Ledger: evidence.NewMemoryLedger()}, NewMemoryStore()
		at := time.Now().Add(-tt.age)
		state := State{Version: Version{1, 1}, Stage: Shadow, Fingerprint: "e", Since: at, StageAt: at, At: at}
		spec := Spec{Policy: "p", Fingerprint: "e", Config: Config{}.WithDefaults()}
		_, announced := store.Heartbeat(t.Context(), Heartbeat{Specs: []Spec{spec}})
		err := errors.Join(announced, store.Put(t.Context(), "p", state, Condition{}))
		if err != nil {
			t.Fatal(err)
		}

		c := NewController(store, ledger, "controller")
		judge := func() Assessment {
			list, err := c.Assess(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			return list[0]
		}
		judge()
		first := ledger.reads
		a := judge()
		says := strings.HasPrefix(a.Gate.Reason, "no instance has had this policy for 32 days")
		if read := ledger.reads > first; read != tt.read || says == tt.read || a.Gate.Verdict != gate.Wait {
			t.Errorf("after %v: read again %t, %q", tt.age, read, a.Gate.Reason)
		}

		self := Instance{ID: "i", Policies: map[string]Applied{"p": {Fingerprint: "e", Version: Version{1, 1}, Flushed: time.Now()}}}
		if _, err := store.Heartbeat(t.Context(), Heartbeat{ID: "i", Self: &self}); err != nil {
			t.Fatal(err)
		}
		before := ledger.reads
		if a := judge(); ledger.reads == before || len(a.Live) != 1 {
			t.Errorf("after %v: an instance has the policy again, and nothing is read: %q", tt.age, a.Gate.Reason)
		}
	}
}
