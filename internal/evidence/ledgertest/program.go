package ledgertest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// countsOnce finds a ledger, a recorder or a reader that counts a comparison twice or loses it: random programs of
// observations, of writes that are lost, late, or done without an answer, of leaders that freeze and go on, of processes that
// are killed and recorders that begin again. A model knows which comparisons are in a batch that has arrived.
func countsOnce(t *testing.T, l evidence.Ledger) {
	// One ledger serves all programs, so each has a policy of its own.
	programs := 0
	rapid.Check(t, func(t *rapid.T) {
		programs++
		w := &world{t: t, ledger: l, id: evidence.ID{Policy: fmt.Sprint("p", programs), Evidence: "e"}, now: time.Now()}
		w.sizes, w.arrived = map[string]int64{}, map[string]bool{}
		for i := range w.leaders {
			w.begin()
			w.leaders[i] = evidence.NewReader(l, w.id, w.now.Add(-back))
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			w.step()
		}
		w.finish()
	})
}

// fate is what becomes of a command. A process sees an error for each of them but done.
type fate int

const (
	done    fate = iota
	lost         // it is not done
	unknown      // it is done, and the answer is lost
	late         // it is done later, and has no answer
)

// costs is what each check costs, 1 of which is given back.
const costs = 5

// world is a fleet with its ledger.
type world struct {
	t         *rapid.T
	ledger    evidence.Ledger
	id        evidence.ID
	now       time.Time
	processes []*process
	leaders   [3]*evidence.Reader
	late      []func()

	sizes   map[string]int64 // comparisons of all batches, by writer and number
	arrived map[string]bool  // the batches that have arrived
}

// process is an instance.
type process struct {
	recorder *evidence.Recorder
	observed int64
	batches  map[string]bool
	alive    bool
}

func (w *world) begin() {
	w.processes = append(w.processes, &process{recorder: evidence.NewRecorder(nil), batches: map[string]bool{}, alive: true})
}

// step does something to a process that is drawn. The process may be dead: then nothing that it counts is written.
func (w *world) step() {
	p := rapid.SampledFrom(w.processes).Draw(w.t, "process")
	switch rapid.SampledFrom([]string{
		"observe", "observe", "observe", "write", "write", "write", "write", "deliver", "deliver", "lead", "lead", "freeze", "read", "restart", "kill",
	}).Draw(w.t, "step") {
	case "observe":
		for range rapid.IntRange(1, 3).Draw(w.t, "comparisons") {
			at := w.now.Add(-time.Duration(rapid.IntRange(0, 100*60).Draw(w.t, "seconds ago")) * time.Second)
			o := rapid.SampledFrom(answers).Draw(w.t, "answers")
			hash := rapid.Uint64().Draw(w.t, "hash")
			outcome := p.recorder.Observe("k", hash, at, &o, &evidence.Setting{Cost: costs, Enforced: 1})
			p.recorder.Settled(hash, at, outcome, -1)
			p.observed++
		}
	case "write":
		w.write(p, rapid.SampledFrom([]fate{done, done, done, lost, unknown, late}).Draw(w.t, "fate"))
	case "deliver": // what was late comes, in any order
		if n := len(w.late); n > 0 {
			i := rapid.IntRange(0, n-1).Draw(w.t, "late one")
			do := w.late[i]
			w.late = append(w.late[:i:i], w.late[i+1:]...)
			do()
		}
	case "lead":
		leader := rapid.SampledFrom(w.leaders[:]).Draw(w.t, "leader")
		w.compare(leader)
		w.must(leader.Store(context.Background()))
	case "freeze": // a leader reads, and stores when others have gone on
		leader := rapid.SampledFrom(w.leaders[:]).Draw(w.t, "leader")
		_, err := leader.History(context.Background(), w.now)
		w.must(err)
		w.late = append(w.late, func() { w.must(leader.Store(context.Background())) })
	case "read":
		w.compare(evidence.NewReader(w.ledger, w.id, w.now.Add(-back)))
	case "restart":
		w.writeAll(p)
		p.recorder.Restart()
	case "kill":
		if p.alive && len(w.processes) < 8 {
			p.alive = false
			w.begin()
		}
	}
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// write sends the batch of a process. Until there is an answer it is the same one.
func (w *world) write(p *process, f fate) {
	if !p.alive {
		return
	}
	b := p.recorder.Batch(w.now, rapid.Bool().Draw(w.t, "whole"))
	name, n := fmt.Sprint(b.Writer, b.Seq), int64(0)
	for i := range b.Slots {
		n += b.Slots[i].Tally.Evaluations()
	}
	w.sizes[name], p.batches[name] = n, true

	add := func() {
		dropped, err := w.ledger.Add(context.Background(), w.id, b)
		if w.must(err); dropped != 0 {
			w.t.Fatalf("%d slots are dropped", dropped)
		}
		w.arrived[name] = true
	}
	switch f {
	case done:
		add()
		p.recorder.Written(b)
	case unknown:
		add()
	case late:
		w.late = append(w.late, add)
	}
}

// writeAll writes all that a process has counted.
func (w *world) writeAll(p *process) {
	for p.alive && p.recorder.Changed() {
		w.write(p, done)
	}
}

// compare finds comparisons that a reader counts twice, or not although they have arrived.
func (w *world) compare(r *evidence.Reader) {
	h, err := r.History(context.Background(), w.now)
	w.must(err)
	var want int64
	for name := range w.arrived {
		want += w.sizes[name]
	}
	total, causes := h.Total(), h.Causes()
	if got := total.Evaluations(); got != want {
		w.t.Fatalf("a history has %d comparisons, want the %d that have arrived", got, want)
	}
	var cost int64
	if extra := h.Extra(); extra != nil {
		cost = extra.Evaluations()
	}
	if cost != (costs-2)*want {
		w.t.Fatalf("a history has a cost of %d beyond 1 each, want %d", cost, (costs-2)*want)
	}
	if causes.Denied[evidence.OtherCause] != total[evidence.NewlyDenied] || causes.Allowed[evidence.OtherCause] != total[evidence.NewlyAllowed] {
		w.t.Fatalf("a history has causes %+v of %v", causes, total)
	}
}

// finish lets everything arrive, and asks for all comparisons of the processes that live. Then the hour that is over is stored as it
// is in the slots, whatever leaders have stored late.
func (w *world) finish() {
	for _, p := range w.processes {
		w.writeAll(p)
	}
	for _, do := range w.late {
		do()
	}
	for _, leader := range w.leaders {
		w.compare(leader)
		w.must(leader.Store(context.Background()))
	}
	for _, p := range w.processes {
		var arrived int64
		for name := range p.batches {
			if w.arrived[name] {
				arrived += w.sizes[name]
			}
		}
		if arrived > p.observed || p.alive && arrived < p.observed {
			w.t.Fatalf("%d of %d comparisons have arrived", arrived, p.observed)
		}
	}

	hour := w.now.Unix()/evidence.SecondsPerHour - 1
	slots, _, err := w.ledger.Slots(context.Background(), w.id, 0, 0)
	w.must(err)
	slots = slices.DeleteFunc(slots, func(s evidence.Slot) bool { return s.Unix/evidence.MinutesPerHour != hour })
	want := evidence.HourOf(hour, slots)
	stored, err := w.ledger.Hours(context.Background(), w.id, hour, hour)
	w.must(err)
	if len(slots) > 0 && (len(stored) != 1 || !reflect.DeepEqual(stored[0], want)) {
		w.t.Fatalf("stored %+v, want %+v", stored, want)
	}
}
