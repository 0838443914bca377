package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// Counts are batches of a policy, in their order, that may or may not be written.
type Counts struct {
	ID      evidence.ID
	Batches []*evidence.Batch
}

// Now returns the store's time as far as is known.
func (f *Fleet) Now() time.Time { return f.now() }

// Collect returns what is to be written of all policies, where Config.ByOwner has the owner write: it keeps that, and then calls
// Write. What was counted before an instant is all in it. It is an error where the store does not answer: nobody knows then
// which evidence the counts belong to.
func (f *Fleet) Collect(ctx context.Context, until time.Time) (list []Counts, err error) {
	f.writer.writing.Lock()
	defer f.writer.writing.Unlock()

	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if !f.heard.Within(flushEvery) {
		if _, err := f.Store.Heartbeat(ctx, stages.Heartbeat{}); err != nil {
			return nil, err
		}
	}
	for _, p := range f.compared() {
		state := p.Stage.State()
		if state.Fingerprint == "" {
			return nil, errUnknownState
		}
		if p.Recorder.Changed() || past(time.Minute, p.written.keys, until) {
			list = append(list, Counts{p.id(), p.Recorder.Collect(until)})
		} else {
			p.written.flushed.Store(until.UnixMicro()) // nothing waits
		}
	}
	return list, nil
}

var errUnknownState = errors.New("no state of a policy has been read yet")

// Write writes counts. What was written before is not counted again, so the same ones may be written as often as one likes.
func (f *Fleet) Write(ctx context.Context, list []Counts) error {
	f.writer.writing.Lock()
	defer f.writer.writing.Unlock()

	for _, c := range list {
		for _, b := range c.Batches {
			if err := f.writeBatch(ctx, c.ID, b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fleet) writeBatch(ctx context.Context, id evidence.ID, b *evidence.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if _, err := f.Ledger.Add(ctx, id, b); err != nil {
		return err
	}
	p := f.Policy(id.Policy)
	if p == nil || !p.Compared {
		return nil
	}
	p.Recorder.Written(b)
	if !b.Until.IsZero() {
		p.written.keys = b.Until
		p.written.flushed.Store(b.Until.UnixMicro())
	}
	return nil
}
