package shadow

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

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

// watched is a policy file that is read again and again.
type watched struct {
	harness *Harness
	file    string
	inUse   []byte
	seen    []byte // at the last reading
	failed  string // the error that was logged; "" while the file can be used
}

// run reads the policy file every reloadEvery, and takes it when it has changed. A file
// that cannot be read or is not valid is logged once, and the last good one stays in use.
func (w *watched) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(reloadEvery):
		}
		w.look()
	}
}

// look reads the file, and takes it if it has changed.
func (w *watched) look() {
	text, err := policies.ReadFile(w.file)

	// While a file is being written its first half is often valid, with half of the
	// policies. So a change must stay for a second reading.
	if err == nil && !bytes.Equal(text, w.seen) {
		w.seen = text
		return
	}
	if err == nil && bytes.Equal(text, w.inUse) {
		w.harness.reloads.note(nil)
		w.mended()
		return
	}

	if err == nil {
		var set *policies.Set
		if set, err = policies.Load(w.file, text, stages.Check); err == nil {
			err = w.harness.Reload(set)
		}
	}
	w.harness.reloads.note(err)

	switch {
	case err == nil:
		w.inUse = text
		w.mended()
	case err.Error() != w.failed:
		w.failed = err.Error()
		w.harness.fleet.Log.Error("shadowlimit: the policy file cannot be used; the last good one stays in use",
			"file", w.file, "error", err)
	}
}

// mended ends a failure that was logged. It is logged, too: a repair that brings back the
// policies in use changes nothing else that an operator could see.
func (w *watched) mended() {
	if w.failed == "" {
		return
	}
	w.failed = ""
	w.harness.fleet.Log.Info("shadowlimit: the policy file is valid again and in use", "file", w.file)
}
