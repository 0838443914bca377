package ledgertest

import (
	"context"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// observable are settings and answers of an evaluation, one for each outcome.
var observable = func() (list [len(divergence.Tally{})]struct {
	answers [2]algorithms.Observation
	setting divergence.Setting
}) {
	allow := algorithms.Observation{Decision: algorithms.Decision{Allowed: true}}
	deny := algorithms.Observation{}
	failed := algorithms.Failure(context.DeadlineExceeded)
	for outcome, answers := range map[divergence.Outcome][2]algorithms.Observation{
		divergence.AgreeAllow: {allow, allow}, divergence.AgreeDeny: {deny, deny},
		divergence.NewlyDenied: {allow, deny}, divergence.NewlyAllowed: {deny, allow},
		divergence.CandidateError: {allow, failed}, divergence.AuthoritativeError: {failed, allow},
		divergence.Inconclusive:   {allow, algorithms.Skip(algorithms.QueueFull)},
		divergence.ExpectedDenied: {allow, deny}, divergence.ExpectedAllowed: {deny, allow},
		divergence.Blind: {allow, allow},
	} {
		list[outcome].answers = answers
		list[outcome].setting = divergence.Setting{Cost: 1, Blind: outcome == divergence.Blind, Expected: algorithms.Expected{
			NewlyDenied: outcome == divergence.ExpectedDenied, NewlyAllowed: outcome == divergence.ExpectedAllowed,
		}}
	}
	return list
}()

// process is an instance. Its observations are numbered, and have an outcome of their own, so that the history says how
// many of them it has.
type process struct {
	outcome  divergence.Outcome
	name     string
	recorder *divergence.Recorder
	observed int64
	beats    bool // it is among the instances that a judge knows
	alive    bool

	last     batch     // the last record that it made
	failed   bool      // it is not known whether that was written
	written  time.Time // when one was
	reloaded []string  // earlier writers
	dropped  []span    // what it has dropped because a judge had taken it for gone
}

// observe counts one evaluation. The multiplier is 2^64 divided by the golden ratio: it spreads hashes evenly, so that
// all stripes of a recorder have counts to lose.
func (p *process) observe(at time.Time) {
	hash := uint64(p.observed)*0x9e3779b97f4a7c15 + uint64(p.outcome)
	p.recorder.Observe("k", hash, at, &observable[p.outcome].answers, &observable[p.outcome].setting)
	p.observed++
}

// flush writes as an instance does: it asks for the fold at least once a minute, and after each failure. It reports whether
// the snapshot was written.
func (p *process) flush(w *world, f fate, asks bool) bool {
	if asks || p.failed || w.now.Sub(p.written) > time.Minute || w.now.Before(p.written) {
		// An instance that cannot ask does not write either. A judge may have ended it, and it has to know that
		// before it puts new counts into a record.
		if f == lost {
			p.recorder.Present(w.now)
			return false
		}
		p.ask(w)
	}

	// The model notes the content of the record before the write: whether it arrives is not known here.
	before := p.recorder.Incarnation()
	s := p.recorder.Snapshot(w.now)
	if s.Incarnation != before { // it has not written for half a day
		p.drop()
	}
	p.last = p.batchOf(s)
	w.ledger.fate = f
	err := w.ledger.write(p, s)
	p.failed = err != nil
	if p.failed {
		p.recorder.Abandon(w.now)
		return false
	}

	// Only an answer tells the recorder that its counts are in the ledger.
	p.recorder.Commit(s, w.now)
	p.written = w.now
	return true
}

func (p *process) ask(w *world) {
	incarnation := p.recorder.Incarnation()
	ack, err := w.ledger.Acked(context.Background(), w.id, divergence.Writer{Instance: p.name, Incarnation: incarnation})
	if err != nil {
		w.ledger.t.Fatal(err)
	}

	// The judge has folded all that had arrived when it read. What came later cannot be told from that, so the
	// process drops both.
	if ack.Ended > 0 {
		p.drop()
	}
	p.recorder.Acknowledge(incarnation, ack)
}

// drop notes that the recorder goes on as another writer.
func (p *process) drop() {
	p.dropped = append(p.dropped, p.last.sealed, p.last.open)
	p.forget()
}

// forget forgets the last record. The next one begins after the observations of this one.
func (p *process) forget() {
	p.last = batch{sealed: span{p.last.open.to, p.last.open.to}, open: span{p.last.open.to, p.last.open.to}}
	p.failed = false
}

// batchOf returns which observations are in a record. They are in order: those of the sealed batch, and then the open
// ones. A record that is repeated has none that were made since.
func (p *process) batchOf(s *divergence.Snapshot) batch {
	end := p.observed

	// The repeated record ends with the same observation as the last one.
	if s.Repeated {
		end = p.last.open.to
	}

	middle := end - p.count(s.Record.Open)
	first := middle - p.count(s.Record.Sealed)
	writer := divergence.Writer{Instance: p.name, Incarnation: s.Incarnation}
	return batch{writer: writer.String(), number: s.Record.Batch, sealed: span{first, middle}, open: span{middle, end}}
}

// count returns how many observations of the process hours have.
func (p *process) count(hours []divergence.Hour) (n int64) {
	for i := range hours {
		for m := range hours[i].Minutes {
			n += hours[i].Minutes[m].Tally[p.outcome]
		}
	}
	return n
}
