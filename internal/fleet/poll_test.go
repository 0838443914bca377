package fleet

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// counted counts heartbeats, and the answers with states.
type counted struct {
	stages.Store
	heartbeats, reads, said int
}

func (c *counted) Heartbeat(ctx context.Context, h stages.Heartbeat) (stages.Heard, error) {
	heard, err := c.Store.Heartbeat(ctx, h)
	if h.ID == "" || h.Leads {
		return heard, err
	}
	c.heartbeats++
	if heard.States != nil {
		c.reads++
	}
	if h.Self != nil {
		c.said++
	}
	return heard, err
}

// An instance reads states only if they have changed, and says of itself only what is news.
func TestHeartbeatsAreSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: stages.NewMemoryStore()}
		f, _ := idleOn(store, "a")
		polls := pollsOf(t, f)
		polls(2)

		*store = counted{Store: store.Store}
		polls(10)
		if store.heartbeats != 10 || store.reads != 0 || store.said != 1 {
			t.Errorf("in 10 s: %d heartbeats, %d of them say something, states read %d times, want 10, 1 and 0", store.heartbeats, store.said, store.reads)
		}

		// A move is read, and said to be applied, at once.
		*store = counted{Store: store.Store}
		_, err := stages.Advance(t.Context(), store.Store, "p", stages.Step{Stage: stages.Promoted}, stages.Order{})
		must(t, err)
		polls(1)
		fleet, err := store.Fleet(t.Context())
		must(t, err)
		if v := fleet.Instances[0].Policies["p"].Version; store.heartbeats != 2 || store.reads != 1 || v.Seq != 2 {
			t.Errorf("a move: %d heartbeats, states read %d times, applied %s, want 2, 1 and 1.2", store.heartbeats, store.reads, v)
		}
	})
}

// pollsOf polls a number of times, once a second.
func pollsOf(t *testing.T, f *Fleet) func(n int) {
	return func(n int) {
		t.Helper()
		for range n {
			time.Sleep(time.Second)
			must(t, f.poller.poll(t.Context()))
		}
	}
}

// A failover takes back a rollback, the instance writes it again, and a second failover takes that
// back, too. The instance writes it once more.
func TestStateThatIsLostTwiceIsWrittenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &cuttable{Store: stages.NewMemoryStore()}
		f, p := idleOn(store, "a")
		polls := pollsOf(t, f)
		polls(1)
		before := *p.Stage.State()
		_, err := stages.Rollback(t.Context(), store, "p", stages.Order{})
		must(t, err)
		polls(2)

		for range 2 {
			replica := stages.NewMemoryStore()
			must(t, replica.Put(t.Context(), "p", before, stages.Condition{}))
			store.Store = replica
			polls(1)
		}
		states, err := store.States(t.Context(), []string{"p"})
		if err != nil || states[0].Stage != stages.RolledBack {
			t.Errorf("the replica has %s, %v, and the instance has applied %s", states[0], err, p.Stage.State())
		}
	})
}

// readOnlyStore answers reads and refuses writes.
type readOnlyStore struct{ stages.Store }

func (readOnlyStore) Put(context.Context, string, stages.State, stages.Condition) error {
	return errCut
}

// The log says that a state was written again once that is so, and once.
func TestLogOfAWrittenState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		said := func() int { return strings.Count(out.String(), "was written again") }
		store := &cuttable{Store: stages.NewMemoryStore()}
		f, _ := idleOn(store, "a")
		f.Log = slog.New(slog.NewTextHandler(&out, nil))
		pollsOf(t, f)(2)

		empty := stages.NewMemoryStore()
		store.Store = readOnlyStore{empty}
		for range 20 {
			time.Sleep(time.Second)
			if f.poller.poll(t.Context()) == nil {
				t.Error("a refused write is no error")
			}
		}
		if n := said(); n != 0 {
			t.Errorf("nothing was written, and the log says so %d times", n)
		}

		store.Store = empty
		pollsOf(t, f)(10)
		if n := said(); n != 1 {
			t.Errorf("it was written once, and the log says so %d times", n)
		}
	})
}

// replied is an error that Redis has answered.
type replied string

func (r replied) Error() string { return string(r) }

func (replied) RedisError() {}

// refusing is a store that takes no writes, and says why.
type refusing struct {
	stages.Store
	why error
}

func (r *refusing) Heartbeat(ctx context.Context, h stages.Heartbeat) (stages.Heard, error) {
	heard, err := r.Store.Heartbeat(ctx, h)
	heard.Refused = r.why
	return heard, err
}

// A master that its replicas have left may be the old one of a split, which no rollback reaches: a canary ends as in an outage.
func TestCanaryOnAnOldMaster(t *testing.T) {
	for why, cut := range map[replied]bool{
		"NOREPLICAS Not enough good replicas to write.":           true,
		"READONLY You can't write against a read only replica.":   false,
		"MISCONF Redis is configured to save RDB snapshots, but.": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &refusing{Store: stages.NewMemoryStore()}
			f, p := idleOn(store, "a")
			pollsOf(t, f)(2)
			store.why = why
			for range 20 {
				time.Sleep(time.Second)
				_ = f.poller.poll(t.Context())
			}
			if p.Stage.CutOff() != cut {
				t.Errorf("%s: a canary has ended: %t, want %t", why, p.Stage.CutOff(), cut)
			}
			store.why = nil
			pollsOf(t, f)(1)
			if p.Stage.CutOff() {
				t.Errorf("%s: the canary does not return", why)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
