package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
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
	before := h.engine.plan.Load()
	if set.Name != h.engine.name {
		return fmt.Errorf("the name is %q, but this service keeps its state under %q; restart it to change the name", set.Name, h.engine.name)
	}
	next, err := h.planOf(set, before)
	if err != nil {
		return err
	}

	// A recorder that begins with this reload must not write over the entries of another
	// that this instance has written under the same name.
	for _, m := range next.migrations {
		if !m.sameEpoch(before.named(m.spec.Policy)) {
			h.incarnations += incarnationsPerReload
			m.recorder.StartIncarnation(h.incarnations)
		}
	}

	h.warn(set)
	dropped := droppedFrom(before, next)
	h.fleet.replan(next, dropped)
	for _, m := range dropped {
		if next.named(m.spec.Policy) == nil {
			h.durations.DeletePartialMatch(prometheus.Labels{"policy": m.spec.Policy})
		}
	}

	// A Close that did not wait for this reload has closed the followers of the plan
	// before, not these.
	if h.closed.Load() {
		return errors.Join(closeFollowers(context.Background(), next.migrations)...)
	}
	for _, c := range changesToLog(policies.Difference(before.set, set)) {
		h.fleet.log.Info("shadowlimit: the policies have changed", "change", c)
	}
	return nil
}

// droppedFrom returns the migrations whose progress does not go on in the next plan.
func droppedFrom(before, next *plan) (dropped []*migration) {
	for _, old := range before.migrations {
		if m := next.named(old.spec.Policy); m == nil || m.progress != old.progress {
			dropped = append(dropped, old)
		}
	}
	return dropped
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
	f.plan.Store(next)
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
		if !m.hasCandidate() {
			continue
		}
		f.writing.Lock()
		if err := f.flushOne(ctx, m, f.view.now()); err != nil {
			f.log.Warn("shadowlimit: the last seconds of evidence of what was compared before are lost", "policy", m.spec.Policy, "error", err)
		}
		f.writing.Unlock()
	}
}
