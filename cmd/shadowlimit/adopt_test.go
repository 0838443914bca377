package main

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/demo"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// Adopting stores a live fingerprint with its generation and puts the one before on the list, with its stage. Where several others
// are live, it has to be named; where none is, there is nothing to adopt.
func TestAdopt(t *testing.T) {
	server, _ := service(t)
	client, err := openRedis("redis://"+server.Addr(), demo.Budget)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := stages.NewRedisStore(client, "checkout")

	adopt := func(wantStatus int, want string, flags ...string) {
		t.Helper()
		status, out, talk := shell(t, "", append(strings.Fields("adopt writes --reason undone"), flags...)...)
		if status != wantStatus || !strings.Contains(out+talk, want) {
			t.Errorf("%v: status %d, want %d with %q:\n%s%s", flags, status, wantStatus, want, out, talk)
		}
	}
	adopt(exitNotMet, "which is stored")

	stored := func() stages.State {
		states, err := store.States(t.Context(), []string{"writes"})
		if err != nil {
			t.Fatal(err)
		}
		return states[0]
	}
	before := stored()
	for id, fingerprint := range map[string]string{"b": "older", "c": "older", "d": "newer"} {
		applied := map[string]stages.Applied{"writes": {Version: stages.Version{Term: 9}, Fingerprint: fingerprint}}
		tell(t, store, stages.Instance{ID: id, Generation: 6, Policies: applied})
	}

	adopt(exitNotMet, "newer, older")
	adopt(exitTimeout, "shadow", "--fingerprint", "older", "--timeout", "1ms") // the other instances apply nothing
	if s := stored(); s.Generation != 6 || s.Fingerprint != "older" || s.Of(before.Fingerprint) != before.Stage {
		t.Errorf("adopted: %s of %s, generation %d, past %v", s, s.Fingerprint, s.Generation, s.Past)
	}
}

// tell has an instance say something of itself, as it does with a heartbeat.
func tell(t *testing.T, store stages.Store, i stages.Instance) {
	t.Helper()
	if _, err := store.Heartbeat(t.Context(), stages.Heartbeat{ID: i.ID, Self: &i}); err != nil {
		t.Fatal(err)
	}
}

// announce makes policies known.
func announce(t *testing.T, store stages.Store, specs ...stages.Spec) {
	t.Helper()
	if _, err := store.Heartbeat(t.Context(), stages.Heartbeat{Specs: specs}); err != nil {
		t.Fatal(err)
	}
}

// announcedBy are the policies of a fleet.
func announcedBy(t *testing.T, store stages.Store) []stages.Spec {
	t.Helper()
	f, err := store.Fleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f.Specs
}

// silence has an instance be heard some time ago.
func silence(t *testing.T, server *miniredis.Miniredis, id string, ago time.Duration) {
	t.Helper()
	if _, err := server.ZAdd("shadowlimit1:{checkout}:heard", float64(time.Now().Add(-ago).UnixMilli()), id); err != nil {
		t.Fatal(err)
	}
}
