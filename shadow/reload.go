package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/policies"
)

// reloadEvery is how often a policy file is read again. What has changed is used when
// it has been read twice.
const reloadEvery = time.Second

// reloads is what became of the policy file, for metrics.
type reloads struct {
	failed atomic.Bool
	last   atomic.Int64 // success, unix seconds
}

// Reload puts a set of policies in the place of the one in use, at once and as a
// whole: a request is judged by one of them. A policy that compares what it did
// keeps its stage and evidence; one that does not begins a new epoch in shadow. On
// an error all stays as it was.
func (h *Harness) Reload(set *policies.Set) error {
	err := h.reload(set)
	h.reloads.failed.Store(err != nil)
	if err != nil {
		return fmt.Errorf("shadow: reload: %w", err)
	}
	h.reloads.last.Store(time.Now().Unix())
	return nil
}

func (h *Harness) reload(set *policies.Set) error {
	if set == nil {
		return errors.New("policies are required")
	}
	h.reloading.Lock()
	defer h.reloading.Unlock()
	if h.closed.Load() {
		return errClosed
	}
	before := h.plan.Load()
	if set.Name != h.name {
		return fmt.Errorf("the name is %q: a service that is %q keeps its state under that name; start it anew", set.Name, h.name)
	}
	next, err := h.planOf(set)
	if err != nil {
		return err
	}
	var dropped []*migration
	for _, m := range next.migrations {
		old := before.named(m.spec.Policy)
		if old != nil && old.spec.Epoch == m.spec.Epoch {
			m.track = old.track
			m.revised.Store(old.revised.Load() || !reflect.DeepEqual(old.spec, m.spec)) // as with other thresholds
			continue
		}
		m.begin(h.engine, h.cfg.Secret)
		h.incarnations += incarnationsPerReload
		m.recorder.StartIncarnation(h.incarnations)
		if old != nil { // until the fleet has heard of the new epoch
			m.state.Store(old.state.Load())
			m.heard.Store(old.heard.Load())
		}
	}
	for _, old := range before.migrations {
		if m := next.named(old.spec.Policy); m == nil || m.track != old.track {
			dropped = append(dropped, old)
		}
	}
	h.warn(set)
	h.fleet.replan(next, dropped)
	if h.closed.Load() { // by a Close that did not wait for us
		return errors.Join(closeFollowers(context.Background(), next.migrations)...)
	}
	for _, c := range changesToLog(policies.Difference(before.set, set)) {
		h.fleet.log.Info("shadowlimit: the policies have changed", "change", c)
	}
	return nil
}

// named returns the migration of a policy, nil if there is none.
func (p *plan) named(policy string) *migration {
	for _, m := range p.migrations {
		if m.spec.Policy == policy {
			return m
		}
	}
	return nil
}

// incarnationsPerReload is how many incarnations a recorder may begin by itself before the number of the next
// reload's recorder is reached.
const incarnationsPerReload = 1 << 20

// changesLogged bounds the lines of a change in the log.
const changesLogged = 50

func changesToLog(changes []policies.Change) (lines []string) {
	for i, c := range changes {
		if i == changesLogged {
			return append(lines, fmt.Sprintf("and %d more", len(changes)-i))
		}
		lines = append(lines, humanize.Printable(c.String()))
	}
	return lines
}

// watch reads the policy file again and again and takes it when it has changed. A
// file that cannot be read or is not valid is logged once, and the last good one
// stays in use. So it does while the file is being written: the first half of one is
// often valid, with half of the policies.
func (h *Harness) watch(ctx context.Context, file string, text []byte) {
	failed, seen := "", text
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(reloadEvery):
		}
		now, err := os.ReadFile(file)
		if err == nil && !bytes.Equal(now, seen) {
			seen = now
			continue
		}
		if err == nil && bytes.Equal(now, text) {
			h.reloads.failed.Store(false)
			failed = ""
			continue
		}
		if err == nil {
			var set *policies.Set
			if set, err = policies.Load(file, now); err == nil {
				err = h.Reload(set)
			}
		}
		h.reloads.failed.Store(err != nil)
		switch {
		case err == nil:
			text, failed = now, ""
		case err.Error() != failed:
			failed = err.Error()
			h.fleet.log.Error("shadowlimit: the policy file cannot be used; the last good one stays in use", "file", file, "error", err)
		}
	}
}

// replan puts a plan in the place of the one in use, and writes what those saw that
// are no longer in it.
func (f *fleet) replan(next *plan, dropped []*migration) {
	f.polling.Lock()
	f.writing.Lock()
	f.engine.plan.Store(next)
	f.writing.Unlock()
	f.polling.Unlock()
	select {
	case f.replanned <- struct{}{}:
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	for i, err := range closeFollowers(ctx, dropped) {
		m := dropped[i]
		if err != nil {
			f.log.Warn("shadowlimit: a limiter that is no longer used does not return", "policy", m.spec.Policy)
		}
		if next.named(m.spec.Policy) == nil {
			f.engine.took.DeletePartialMatch(prometheus.Labels{"policy": m.spec.Policy})
		}
		if !m.candidate {
			continue
		}
		f.writing.Lock()
		if err := f.flushOne(ctx, m, f.now()); err != nil {
			f.log.Warn("shadowlimit: the last seconds of evidence of what was compared before are lost", "policy", m.spec.Policy, "error", err)
		}
		f.writing.Unlock()
	}
}
