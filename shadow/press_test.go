//go:build unix

package shadow_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// outage is a promoted instance whose Redis is away.
type outage struct {
	t      *testing.T
	server *miniredis.Miniredis
	cfg    shadow.Config
	h      *shadow.Harness
}

func newOutage(t *testing.T, button shadow.RedButton) *outage {
	t.Helper()
	server := miniredis.RunT(t)
	o := &outage{t: t, server: server, cfg: shadow.Config{
		Redis: redisAt(t, server.Addr()), StateDir: t.TempDir(), RedButton: button,
	}}
	o.h = open(t, file, o.cfg)
	syncNow(t, o.h)
	advance(t, inside.Stages(o.h), policy, full)
	syncNow(t, o.h)
	server.Close()
	return o
}

// restart starts the instance again in the outage.
func (o *outage) restart() {
	o.t.Helper()
	o.h.Close(ctx(o.t))
	o.h = open(o.t, file, o.cfg)
}

// end ends the outage, and returns the audit trail once the instance is back.
func (o *outage) end() []stages.State {
	o.t.Helper()
	if err := o.server.Restart(); err != nil {
		o.t.Fatal(err)
	}
	// After as many failures as its pool is large, go-redis answers with the last one until a probe of its own, once a second, succeeds.
	eventually(o.t, "the client dials again", func() bool { return o.cfg.Redis.Ping(o.t.Context()).Err() == nil })
	syncNow(o.t, o.h)
	syncNow(o.t, o.h)
	history, err := inside.Stages(o.h).History(o.t.Context(), policy)
	if err != nil {
		o.t.Fatal(err)
	}
	return history
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	late := time.After(10 * time.Second)
	for tick := time.Tick(time.Millisecond); !so(); {
		select {
		case <-tick:
		case <-late:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// checkTrail holds the stages that were stored, in their order.
func checkTrail(t *testing.T, history []stages.State, want ...stages.Stage) {
	t.Helper()
	var got []stages.Stage
	for _, s := range history {
		got = append(got, s.Stage)
	}
	if len(got) != len(want) || got[len(got)-1] != want[len(want)-1] {
		t.Errorf("the trail has %v, want %v", got, want)
	}
}

// A press in an outage acts at once, and is stored once when Redis is back, although the
// instance has restarted in between.
func TestPressInAnOutageIsStoredOnce(t *testing.T) {
	for _, restarts := range []int{0, 1, 2} {
		o := newOutage(t, shadow.RedButton{})
		code, r := asked(t, o.h.RedButtonHandler(), http.MethodPost)
		if code != 200 || !r.Pressed || !r.Kept || len(r.Waiting) != 1 || r.Waiting[0].Policy != policy || r.Waiting[0].Term != 1 {
			t.Errorf("%d %+v", code, r)
		}

		for range restarts {
			o.restart()
		}
		if d := ask(t, o.h, "acme"); d.Enforced.String() != "authoritative" {
			t.Errorf("after %d restarts: %+v", restarts, d)
		}
		checkTrail(t, o.end(), stages.Shadow, stages.Promoted, stages.RolledBack)
		if _, r := asked(t, o.h.RedButtonHandler(), http.MethodGet); !r.Pressed || len(r.Waiting) != 0 {
			t.Errorf("after the outage: %+v", r)
		}
	}
}

// A press while Redis answers is stored and on the disk when the handler answers.
func TestPressIsKeptWhenTheHandlerAnswers(t *testing.T) {
	for range 10 {
		server := miniredis.RunT(t)
		h := open(t, file, shadow.Config{Redis: redisAt(t, server.Addr()), StateDir: t.TempDir()})
		syncNow(t, h)
		advance(t, inside.Stages(h), policy, full)
		syncNow(t, h)
		code, r := asked(t, h.RedButtonHandler(), http.MethodPost)
		if code != 200 || !r.Pressed || !r.Kept || len(r.Waiting) != 0 {
			t.Errorf("%d %+v", code, r)
		}
		h.Close(ctx(t))
	}
}

// A release before the order is stored withdraws it, also by an instance that has restarted.
func TestReleaseInAnOutageWithdrawsTheOrder(t *testing.T) {
	for _, restarts := range []int{0, 1} {
		o := newOutage(t, shadow.RedButton{})
		asked(t, o.h.RedButtonHandler(), http.MethodPost)
		for range restarts {
			o.restart()
		}
		if _, r := asked(t, o.h.RedButtonHandler(), http.MethodDelete); r.Pressed || len(r.Waiting) != 0 {
			t.Errorf("released: %+v", r)
		}
		checkTrail(t, o.end(), stages.Shadow, stages.Promoted)
	}
}

// A file that is removed while the instance is down has released the button.
func TestFileRemovedBetweenRunsWithdrawsTheOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "authoritative")
	o := newOutage(t, shadow.RedButton{File: path})
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the button is pressed", func() bool {
		_, r := asked(t, o.h.RedButtonHandler(), http.MethodGet)
		return r.Pressed && r.Kept
	})

	o.h.Close(ctx(t))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	o.h = open(t, file, o.cfg)
	checkTrail(t, o.end(), stages.Shadow, stages.Promoted)
}

// A file that was forgotten acts on the instance that starts, and orders nothing.
func TestForgottenFileOrdersNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "authoritative")
	o := newOutage(t, shadow.RedButton{File: path})
	o.h.Close(ctx(t))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	o.h = open(t, file, o.cfg)
	checkTrail(t, o.end(), stages.Shadow, stages.Promoted)
	if d := ask(t, o.h, "acme"); d.Enforced.String() != "authoritative" {
		t.Errorf("%+v", d)
	}
	assessed, err := inside.Assess(t.Context(), o.h)
	if err != nil || len(assessed[0].Pressed()) != 1 || assessed[0].MayStep() {
		t.Errorf("%+v, %v", assessed, err)
	}
}
