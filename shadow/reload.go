package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// reloadEvery is how often a policy file is read again. A change is used when two reads
// in a row have seen it.
const reloadEvery = time.Second

// reloads are how reading the policy file has ended, for metrics. Reloads write it, and
// scrapes read it.
type reloads struct {
	failed atomic.Pointer[string] // why the last reading failed; nil if it did not
	last   atomic.Int64           // the last success, Unix seconds
}

func (r *reloads) note(err error) {
	if err == nil {
		r.failed.Store(nil)
		return
	}
	why := err.Error()
	r.failed.Store(&why)
}

// trouble says why the file cannot be used, "" if it is in use.
func (r *reloads) trouble() string {
	if why := r.failed.Load(); why != nil {
		return *why
	}
	return ""
}

// Reload replaces the policies in use at once and as a whole: a request is judged by one
// set or the other. A policy whose sides and key are unchanged keeps its stage and
// evidence; another one begins in shadow. On an error all stays as it was.
func (h *Harness) Reload(set *policies.Set) error {
	err := h.reload(set)
	h.reloads.note(err)
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

	// The name is part of every key in Redis and of every key's hash. With another one all
	// limits and the evidence would begin again.
	before := h.engine.Plan.Load()
	if set.Name != h.engine.Name {
		return fmt.Errorf("the name is %q, but this service keeps its state under %q; restart it to change the name",
			set.Name, h.engine.Name)
	}

	next, err := h.planOf(set, before)
	if err != nil {
		return err
	}

	h.warn(set)
	dropped := droppedFrom(before, next)
	h.replan(next, dropped)
	h.engine.Synchronize(next)
	// The series of what is compared no more would stay at their last value for ever, and be taken for those of what is.
	for _, p := range dropped {
		if now := next.Named(p.Spec.Policy); now == nil || now.Spec.Fingerprint != p.Spec.Fingerprint {
			h.durations.DeletePartialMatch(prometheus.Labels{"policy": p.Spec.Policy, "fingerprint": p.Spec.Fingerprint})
		}
	}

	// A Close that did not wait for this reload has closed the queues of the plan
	// before, not these.
	if h.closed.Load() {
		return errors.Join(engine.CloseAsync(context.Background(), next.Policies)...)
	}
	for _, c := range changesToLog(policies.Difference(before.Set, set)) {
		h.fleet.Log.Info("shadowlimit: the policies have changed", "change", c)
	}
	return nil
}

// droppedFrom returns the policies whose progress does not go on in the next plan.
func droppedFrom(before, next *engine.Plan) (dropped []*engine.Policy) {
	for _, old := range before.Policies {
		if p := next.Named(old.Spec.Policy); p == nil || p.Recorder != old.Recorder {
			dropped = append(dropped, old)
		}
	}
	return dropped
}

// changesLogged bounds how many changes of one reload are logged.
const changesLogged = 50

// changesToLog returns the lines that a reload logs.
func changesToLog(changes []policies.Change) (lines []string) {
	for i, c := range changes {
		if i == changesLogged {
			return append(lines, fmt.Sprintf("and %d more", len(changes)-i))
		}
		lines = append(lines, humanize.Printable(c.String()))
	}
	return lines
}

// watch reads the policy file every reloadEvery, and takes it when it has changed. A file
// that cannot be read or is not valid is logged once, and the last good one stays in use.
func (h *Harness) watch(ctx context.Context, file string, text []byte) {
	w := &watched{file: file, inUse: text, seen: text}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(reloadEvery):
		}
		h.look(w)
	}
}

// watched is a policy file that is read again and again.
type watched struct {
	file   string
	inUse  []byte
	seen   []byte // at the last reading
	failed string // the error that was logged; "" while the file can be used
}

// look reads the file, and takes it if it has changed.
func (h *Harness) look(w *watched) {
	text, err := policies.ReadFile(w.file)

	// While a file is being written its first half is often valid, with half of the
	// policies. So a change must stay for a second reading.
	if err == nil && !bytes.Equal(text, w.seen) {
		w.seen = text
		return
	}
	if err == nil && bytes.Equal(text, w.inUse) {
		h.reloads.note(nil)
		h.mended(w)
		return
	}

	if err == nil {
		var set *policies.Set
		if set, err = policies.Load(w.file, text, stages.Check); err == nil {
			err = h.Reload(set)
		}
	}
	h.reloads.note(err)

	switch {
	case err == nil:
		w.inUse = text
		h.mended(w)
	case err.Error() != w.failed:
		w.failed = err.Error()
		h.fleet.Log.Error("shadowlimit: the policy file cannot be used; the last good one stays in use",
			"file", w.file, "error", err)
	}
}

// mended ends a failure that was logged. It is logged, too: a repair that brings back the
// policies in use changes nothing else that an operator could see.
func (h *Harness) mended(w *watched) {
	if w.failed == "" {
		return
	}
	w.failed = ""
	h.fleet.Log.Info("shadowlimit: the policy file is valid again and in use", "file", w.file)
}
