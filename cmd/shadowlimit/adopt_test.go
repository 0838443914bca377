package main

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/demo"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Most instances have a file of a smaller generation. Adopting lowers the stored generation and
// nothing else; while the instances have one file there is nothing to adopt.
func TestAdopt(t *testing.T) {
	server, _ := service(t)
	client, err := openRedis("redis://"+server.Addr(), demo.Budget)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := promotion.NewRedisStore(client, "checkout")

	adopt := func(wantStatus int, want string, flags ...string) {
		t.Helper()
		status, out, talk := shell(t, "", append(strings.Fields("adopt writes --reason undone"), flags...)...)
		if status != wantStatus || !strings.Contains(out+talk, want) {
			t.Errorf("%v: status %d, want %d with %q:\n%s%s", flags, status, wantStatus, want, out, talk)
		}
	}
	adopt(exitNotMet, "no other epoch")

	// The stored state has generation 7, and two instances have a file of generation 6.
	stored := func() promotion.State {
		states, err := store.States(t.Context(), []string{"writes"})
		if err != nil {
			t.Fatal(err)
		}
		return states[0]
	}
	before := stored()
	seven := before
	seven.Seq++
	seven.Generation = 7
	if err := store.Put(t.Context(), "writes", seven, promotion.Condition{Expect: &before}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"b", "c"} {
		applied := map[string]promotion.Applied{"writes": {Version: promotion.Version{Term: 9}, Epoch: "older", Generation: 6}}
		if err := store.Beat(t.Context(), promotion.Instance{ID: id, At: time.Now(), Policies: applied}); err != nil {
			t.Fatal(err)
		}
	}

	adopt(exitOK, "would", "--dry-run")
	if s := stored(); s.Generation != 7 {
		t.Errorf("a dry run has adopted: generation %d", s.Generation)
	}
	adopt(exitTimeout, "generation is 6", "--timeout", "1ms") // two of the instances are none
	if s := stored(); s.Generation != 6 || s.Epoch != before.Epoch || s.Stage != before.Stage {
		t.Errorf("adopted: %s epoch %s generation %d", s, s.Epoch, s.Generation)
	}
	adopt(exitNotMet, "takes over by itself")
}
