package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// countsOnce finds a ledger, a recorder or a judge that counts a comparison twice or loses it: random programs of
// observations, of writes and folds that are lost, late, or done without an answer, of judges that freeze and go on, of
// instances that crash, are cut off, wake and begin again. A model knows which observations are in which batch, and so
// which ones the history has to have.
func countsOnce(t *testing.T, l divergence.Ledger) {
	// One ledger serves all programs, so each has a policy of its own.
	programs := 0
	rapid.Check(t, func(t *rapid.T) {
		programs++
		w := newWorld(t, l, divergence.ID{Policy: fmt.Sprint("p", programs), Epoch: "e"})
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			w.step(t)
		}
		w.finish(t)
	})
}

// world is a fleet with its ledger, and what the model knows of it.
type world struct {
	ledger *faulty
	id     divergence.ID
	// now is the store's clock, by which instances and judges go. Their own clocks play no part.
	now       time.Time
	processes []*process
	judges    [2]*divergence.Reader
	reader    *divergence.Reader // reads again and again
	unfolded  bool               // the last sleep began without a fold
}

// newWorld returns a fleet of three processes and two judges. Judges go through the faults, and the reader does not:
// it is the measure. The evidence begins two hours early, because observations may be late by 100 minutes.
func newWorld(t *rapid.T, l divergence.Ledger, id divergence.ID) *world {
	w := &world{id: id, now: start}
	w.ledger = &faulty{Ledger: l, world: w, t: t}
	for i := range w.judges {
		w.judges[i] = divergence.NewReader(w.ledger, id, start.Add(-2*time.Hour))
	}
	w.reader = divergence.NewReader(l, id, start.Add(-2*time.Hour))
	for range 3 {
		w.begin()
	}
	return w
}

// begin starts a process under a name of its own.
func (w *world) begin() {
	n := len(w.processes)
	w.processes = append(w.processes, &process{
		outcome: divergence.Outcome(n), name: fmt.Sprint("instance-", n), recorder: divergence.NewRecorder(nil), beats: true, alive: true,
	})
}

// steps are what happens, each as often as it stands there. Most are writes, folds and reads, because mistakes lie in
// their order. An end or a sleep takes much out of a program, and is rare.
var steps = []func(w *world, t *rapid.T, p *process){
	(*world).observe, (*world).observe, (*world).observe, (*world).observe,
	(*world).wait, (*world).wait,
	(*world).write, (*world).write, (*world).write, (*world).write,
	(*world).fold, (*world).fold, (*world).fold,
	(*world).deliver, (*world).deliver,
	(*world).round, (*world).round,
	(*world).leave, (*world).reload, (*world).cutOff, (*world).depart, (*world).freeze, (*world).sleep,
	(*world).read, (*world).read, (*world).read,
}

// step draws a step and the process that it is about. The process may have ended: then nothing that it counts is
// written.
func (w *world) step(t *rapid.T) {
	what := rapid.IntRange(0, len(steps)-1).Draw(t, "step")
	p := w.processes[rapid.IntRange(0, len(w.processes)-1).Draw(t, "process")]
	steps[what](w, t, p)
}

// observe counts a few comparisons of a process, some of them late. A late one may belong to an hour that a judge has
// folded, and is to be added to it.
func (w *world) observe(t *rapid.T, p *process) {
	late := time.Duration(rapid.IntRange(0, 100).Draw(t, "minutes late")) * time.Minute
	for range rapid.IntRange(1, 3).Draw(t, "comparisons") {
		p.observe(w.now.Add(-late))
	}
}

// wait lets time pass. Seldom the store's clock steps back, as after a failover: a reader must not keep an hour that is
// open again by it.
func (w *world) wait(t *rapid.T, _ *process) {
	w.now = w.now.Add(time.Duration(rapid.IntRange(-20, 180).Draw(t, "seconds")) * time.Second)
}

// write writes a snapshot of a process. Instances ask for the fold about once a minute. One that asks more often must
// count the same.
func (w *world) write(t *rapid.T, p *process) {
	if p.alive {
		p.flush(w, drawFate(t, "write"), rapid.Bool().Draw(t, "asks"))
	}
}

// round is a minute without faults: all processes count and write.
func (w *world) round(_ *rapid.T, _ *process) {
	w.now = w.now.Add(time.Minute)
	for _, p := range w.processes {
		if p.alive {
			p.observe(w.now)
			p.flush(w, done, true)
		}
	}
}

// depart lets a judge see that a process is gone. It may go on all the same. The judge must have seen one record for
// two minutes, so it folds three times.
func (w *world) depart(_ *rapid.T, p *process) {
	p.beats = false
	for range 2 {
		w.foldBy(w.judges[0], done)
		w.now = w.now.Add(2 * time.Minute)
	}
	w.foldBy(w.judges[0], done)
}

// freeze stops a judge between its reading and its fold. Another one folds meanwhile. The late fold would put back what
// the other one has replaced, so the ledger has to refuse it.
func (w *world) freeze(t *rapid.T, p *process) {
	w.foldBy(w.judges[0], late)
	w.round(t, p)
	w.foldBy(w.judges[1], done)
}

// sleep lets hours pass. An instance keeps a few of them where it cannot write or no judge folds, so everything is written
// before, and usually folded.
func (w *world) sleep(t *rapid.T, _ *process) {
	w.writeAll()

	// Two such sleeps in a row may be more than a recorder keeps, and it would drop hours as it is meant to.
	w.unfolded = !w.unfolded && rapid.Bool().Draw(t, "stays unfolded")
	for range 2 {
		if !w.unfolded {
			w.foldBy(w.judges[0], done)
			w.now = w.now.Add(time.Minute)
			w.writeAll()
		}
	}
	w.now = w.now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "hours")) * time.Hour)
}

// writeAll lets all processes write everything. The first write may be the last one once more.
func (w *world) writeAll() {
	for _, p := range w.processes {
		if p.alive {
			p.flush(w, done, true)

			// The first write may be the last one once more, and the second has the rest.
			p.flush(w, done, true)
		}
	}
}

// fold lets a judge fold.
func (w *world) fold(t *rapid.T, _ *process) {
	w.foldBy(w.judges[rapid.IntRange(0, 1).Draw(t, "judge")], drawFate(t, "fold"))
}

// foldBy lets a judge fold by the instances that beat. Its one command has the fate: a fold reads first, and only then writes.
func (w *world) foldBy(judge *divergence.Reader, f fate) {
	var present []string
	for _, p := range w.processes {
		if p.beats {
			present = append(present, p.name)
		}
	}

	// An error without an answer is the fate that was drawn. Any other one is of the judge or of the ledger.
	w.ledger.fate = f
	if err := judge.Fold(context.Background(), w.now, present); err != nil && !errors.Is(err, errNoAnswer) {
		w.ledger.t.Fatal(err)
	}
}

// deliver carries out a late action: a write that was on its way, or the fold of a judge that was frozen.
func (w *world) deliver(t *rapid.T, _ *process) {
	if n := len(w.ledger.late); n > 0 {
		i := rapid.IntRange(0, n-1).Draw(t, "late one")
		do := w.ledger.late[i]
		w.ledger.late = append(w.ledger.late[:i:i], w.ledger.late[i+1:]...)
		do()
	}
}

// leave ends a process, without a last write. Another one begins, as long as there is an
// outcome that no process has had.
func (w *world) leave(_ *rapid.T, p *process) {
	if p.alive && len(w.processes) < len(observable) {
		p.alive, p.beats = false, false
		w.begin()
	}
}

// reload begins the recorder of a process again, as a policy does that comes back. Its last record is written.
func (w *world) reload(_ *rapid.T, p *process) {
	if !p.alive {
		return
	}
	p.flush(w, done, true)
	p.flush(w, done, true)
	p.reloaded = append(p.reloaded, p.last.writer)

	// The new recorder needs a higher number than its predecessor could have reached: under an old one its batches
	// would count as folded.
	next := p.recorder.Incarnation() + 1000
	p.forget()
	p.recorder = divergence.NewRecorder(nil)
	p.recorder.StartIncarnation(next)
}

// cutOff takes a process off the list of instances, or back again. It goes on meanwhile. A judge may end it, and then
// it must go on as another writer, without what it had written.
func (w *world) cutOff(_ *rapid.T, p *process) {
	if p.alive {
		p.beats = !p.beats
	}
}

// read compares the history with the model, by a reader that goes on and by one that begins. The first one finds hours
// that were kept and have changed. Both read an hour ahead, because the clock may have stepped back from there.
func (w *world) read(t *rapid.T, _ *process) {
	for name, r := range map[string]*divergence.Reader{
		"a reader that goes on": w.reader, "a new reader": divergence.NewReader(w.ledger.Ledger, w.id, start.Add(-2*time.Hour)),
	} {
		h, err := r.History(context.Background(), w.now.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		w.compare(t, name, &h)
	}
}

// compare finds comparisons that the history counts twice, or not although they are in the ledger.
func (w *world) compare(t *rapid.T, reader string, h *divergence.History) {
	total := h.Total()
	for _, p := range w.processes {
		if got, want := total[p.outcome], w.ledger.counted(p); got != want {
			t.Fatalf("%s has %d comparisons of %s, which made %d, want the %d that were written:\n%s",
				reader, got, p.name, p.observed, want, w.ledger.describe(p))
		}
	}

	// An hour has its causes apart from its minutes. A ledger could keep the one and lose the other.
	causes := h.Causes()
	if denied, allowed := causes.Denied[divergence.OtherCause], causes.Allowed[divergence.OtherCause]; denied != total[divergence.NewlyDenied] ||
		allowed != total[divergence.NewlyAllowed] {
		t.Fatalf("%s has causes of %d newly denied and %d newly allowed, and %v in its minutes", reader, denied, allowed, total)
	}
}

// finish lets all processes that live write what they have, and asks for all comparisons but the ones that the processes
// could not know to be counted.
func (w *world) finish(t *rapid.T) {
	// Everything that is under way arrives first: nothing may change the counts after the comparison.
	for _, do := range w.ledger.late {
		do()
	}
	w.ledger.late = nil

	// The first round may only be told what became of earlier writes. The second has all counts.
	for range 2 {
		w.writeAll()
		w.now = w.now.Add(time.Minute)
		w.foldBy(w.judges[0], done)
	}

	// A process that has left made no last write, so only the living ones are asked for all that they have counted.
	w.read(t, nil)
	for _, p := range w.processes {
		if got := w.ledger.counted(p); p.alive && got != p.observed-w.ledger.dropped(p) {
			t.Fatalf("%d comparisons of %s are counted, want %d but %d:\n%s", got, p.name, p.observed, w.ledger.dropped(p), w.ledger.describe(p))
		}
	}
}
