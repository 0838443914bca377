package fleet

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// asked lets a policy's recorder count a request, as a decided one does.
func asked(p *Policy) {
	allow := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}
	p.Recorder.Observe("k", 1, time.Now(), &[2]algorithms.Observation{allow, allow}, &evidence.Setting{Cost: 1})
}

// newlyDenied lets a recorder count a request that the enforced candidate denies, and the authoritative allows.
func newlyDenied(p *Policy, hash uint64) {
	allow := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}
	setting := &evidence.Setting{Cost: 1, Enforced: algorithms.Candidate}
	p.Recorder.Observe(fmt.Sprint(hash), hash<<32, time.Now(), &[2]algorithms.Observation{allow, {Status: algorithms.Judged}}, setting)
}

// running starts an instance of a fingerprint, with a log.
func running(store stages.Store, id, fingerprint string) (*Fleet, *Policy, *bytes.Buffer) {
	f, p := idleOn(store, id)
	var log bytes.Buffer
	f.Log = slog.New(slog.NewTextHandler(&log, nil))
	p.Spec.Fingerprint = fingerprint
	f.Start(context.Background())
	return f, p, &log
}

// Two instances with the next file beside one with the file before. Without a request they
// change nothing and say so, once. When they have decided one, they wait for the last instance of the file before, and
// only then their thresholds are those of the fleet. When they close, all is as it was.
func TestFleetFollowsTheInstancesThatServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := stages.NewMemoryStore()
		expect := func(when, stage, fingerprint string) {
			t.Helper()
			f, err := store.Fleet(ctx)
			must(t, err)
			states, err := store.States(ctx, []string{"p"})
			announced := f.Specs[0].Fingerprint
			if s := states[0]; err != nil || s.Describe() != stage || s.Fingerprint != fingerprint || announced != fingerprint {
				t.Errorf("%s: %s of %s, announced %s, want %s of %s", when, s, s.Fingerprint, announced, stage, fingerprint)
			}
		}

		before, p, _ := running(store, "before", "e")
		asked(p)
		_, err := stages.Advance(ctx, store, "p", stages.Step{Stage: stages.Promoted}, stages.Order{})
		must(t, err)

		var next []*Fleet
		var policies []*Policy
		var logs []*bytes.Buffer
		for n := range 2 {
			f, p, log := running(store, fmt.Sprint("next ", n), "f")
			next, policies, logs = append(next, f), append(policies, p), append(logs, log)
		}
		time.Sleep(2 * time.Minute)
		expect("no request yet", "promoted", "e")
		if n := strings.Count(logs[0].String(), "has another policy file"); n != 1 || !policies[0].Differs() {
			t.Errorf("%d lines, differs %t:\n%s", n, policies[0].Differs(), logs[0])
		}
		if got := policies[0].enforced(at(0)); got != algorithms.Authoritative {
			t.Errorf("an instance of another fingerprint enforces the %s", got)
		}

		for _, p := range policies {
			asked(p)
		}
		time.Sleep(2 * time.Minute)
		expect("the file before is served", "promoted", "e")
		must(t, before.Close(ctx))
		time.Sleep(50 * time.Second)
		expect("it is not served", "shadow", "f")

		before, p, _ = running(store, "again", "e")
		defer before.Close(ctx)
		asked(p)
		for _, f := range next {
			must(t, f.Close(ctx))
		}
		time.Sleep(50 * time.Second)
		expect("closed", "promoted", "e")
	})
}

// A reload that brings another file takes effect after half a minute of a single instance, and another
// generation of the same file reaches the state.
func TestReloadOfASingleInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stages.NewMemoryStore()
		n := &node{}
		n.Fleet, n.Policy = instanceOn(store, "a")
		defer n.Fleet.Close(context.Background())
		asked(n.Policy)
		time.Sleep(2 * time.Second)

		n.use("f", 0)
		time.Sleep(40 * time.Second)
		if s := n.Stage.State(); s.Fingerprint != "f" || s.Of("e") != stages.Shadow {
			t.Errorf("after the reload: %s of %s", s, s.Fingerprint)
		}
		n.use("f", 3)
		time.Sleep(10 * time.Second)
		if s := n.Stage.State(); s.Generation != 3 {
			t.Errorf("generation %d, want 3", s.Generation)
		}
	})
}

// The leader is killed. Another one evaluates within 20 s; the one that closes need not be waited for.
func TestAnotherInstanceLeads(t *testing.T) {
	for _, killed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := stages.NewMemoryStore()
			a, _ := instanceOn(store, "a")
			time.Sleep(10 * time.Second)
			b, p := instanceOn(store, "b")
			defer b.Close(context.Background())
			time.Sleep(40 * time.Second)
			if !a.Leads() || b.Leads() {
				t.Fatalf("a leads: %t, b leads: %t", a.Leads(), b.Leads())
			}
			if at := p.assessment.Load(); at == nil || at.Leader != "a" || time.Since(at.At) > 2*stages.EvaluateEvery {
				t.Errorf("b has %+v, want what a has published", at)
			}

			within := 20 * time.Second
			if killed {
				a.stop()
			} else {
				must(t, a.Close(t.Context()))
				within = 7 * time.Second
			}
			gone := time.Now()
			time.Sleep(within)
			if at := p.assessment.Load(); !b.Leads() || at.Leader != "" || at.At.Before(gone) {
				t.Errorf("killed %t: %s later b leads: %t, and has what is %s old", killed, within, b.Leads(), time.Since(at.At))
			}
		})
	}
}

// A failover takes back what is announced, when every instance of the stored fingerprint is gone. One of
// another announces the policy, so that it is evaluated and commands know it.
func TestPolicyOfAnotherFingerprintIsAnnouncedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stages.NewMemoryStore()
		must(t, stages.Begin(t.Context(), store, "p", "gone", 0, "test"))
		f, p := idleOn(store, "a")
		must(t, f.poller.poll(t.Context()))
		must(t, f.lead.leadNow(t.Context()))
		must(t, f.lead.leadNow(t.Context()))
		if p.assessment.Load() == nil {
			t.Error("the policy was not evaluated")
		}
	})
}
