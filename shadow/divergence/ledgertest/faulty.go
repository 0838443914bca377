package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// fate is what becomes of a command. A process sees an error for each of them but done, and must be right after any of
// them.
type fate int

const (
	done    fate = iota
	lost         // it is not done
	unknown      // it is done, and the answer is lost
	late         // it is done later, and has no answer
)

// drawFate draws the fate of a command. Half of them meet no fault, so that programs get past some folds.
func drawFate(t *rapid.T, what string) fate {
	return rapid.SampledFrom([]fate{done, done, done, lost, unknown, late}).Draw(t, what)
}

// errNoAnswer is the error of every fault: a process cannot tell a command that is lost from one that is done.
var errNoAnswer = errors.New("i/o timeout")

// span is observations of a process, from one up to another.
type span struct{ from, to int64 }

// batch is a record, by the observations in it.
type batch struct {
	writer       string
	number       int64
	sealed, open span
}

// faulty is a ledger that loses commands and does them late, and the model of what it has.
type faulty struct {
	divergence.Ledger
	world *world
	t     *rapid.T
	fate  fate // of the next command
	late  []func()

	records map[string]batch        // by writers
	sealed  map[string]span         // by writers and numbers of batches
	folded  map[string]map[int]span // by instances
	ended   map[string]bool         // writers
}

// carry lets a command meet its fate. What becomes of a late command, or of one whose answer is lost, is ignored: its
// process does not hear of it.
func (l *faulty) carry(do func() error) error {
	switch l.fate {
	case lost:
		return errNoAnswer
	case late:
		l.late = append(l.late, func() { _ = do() })
		return errNoAnswer
	case unknown:
		_ = do()
		return errNoAnswer
	}
	return do()
}

func (l *faulty) write(p *process, s *divergence.Snapshot) error {
	// A judge may have folded the earlier text of a batch. If the writer changes it afterwards, the ack of that
	// number covers counts that no fold has seen.
	record := p.last
	name := fmt.Sprint(record.writer, " ", record.number)
	if before, known := l.sealed[name]; known && before != record.sealed {
		l.t.Fatalf("batch %s was %v and is %v: a sealed batch does not change", name, before, record.sealed)
	}
	l.sealed = put(l.sealed, name, record.sealed)

	begun := l.world.now
	return l.carry(func() error {
		// A write that comes after the last one of its writer takes that one's seconds back, and a write that comes after a day
		// would find its end forgotten. No connection lives so long.
		over := slices.Contains(p.reloaded, record.writer) && !l.ended[record.writer]
		if over || l.world.now.Sub(begun) > 12*time.Hour {
			return nil
		}

		// Faults are of the way to the ledger. An error of the ledger itself is a mistake, and ends the program.
		if err := l.Ledger.Write(context.Background(), l.world.id, p.name, s); err != nil {
			l.t.Fatal(err)
		}
		l.records = put(l.records, record.writer, record)
		return nil
	})
}

// Fold implements Ledger. The model knows what the judge has read, because nothing happens between that and this.
func (l *faulty) Fold(ctx context.Context, id divergence.ID, f *divergence.Fold) error {
	// The copies are taken now and not when the fold is carried out: a late fold has the counts of its reading.
	read, gone := maps.Clone(l.records), maps.Clone(l.ended)
	return l.carry(func() error {
		// A fold that the ledger refuses has stored nothing, so the model stays as it is.
		err := l.Ledger.Fold(ctx, id, f)
		if err != nil {
			return err
		}

		// A sealed batch is known by its number, whichever record the judge has read it in. Of a writer that ends
		// everything is folded, as it was read: what arrives later does not count.
		for writer, ack := range f.Acks {
			if ack.Ended == 0 {
				l.add(writer, l.sealed[fmt.Sprint(writer, " ", ack.Batch)])
				continue
			}
			if !gone[writer] {
				l.add(writer, read[writer].sealed)
				l.add(writer, read[writer].open)
				l.overtaken(writer)
			}
			l.ended = put(l.ended, writer, true)
		}
		for _, writer := range f.Removed {
			delete(l.records, writer)
		}
		return nil
	})
}

// overtaken notes what a writer wrote while the judge that now ends it was frozen. A process that goes on hears of its end
// and drops its last record itself. A recorder that has begun again does not ask about its predecessor any more.
func (l *faulty) overtaken(writer string) {
	for _, p := range l.world.processes {
		if slices.Contains(p.reloaded, writer) {
			p.dropped = append(p.dropped, l.records[writer].sealed, l.records[writer].open)
		}
	}
}

// add notes that observations are folded.
func (l *faulty) add(writer string, s span) {
	// All writers of an instance are one process: an observation that two of them have counts once.
	instance, _, _ := strings.Cut(writer, "#")

	// Their order does not matter: counted asks only whether an observation is in any of them.
	l.folded = put(l.folded, instance, put(l.folded[instance], len(l.folded[instance]), s))
}

// counted returns how many observations of a process the history has to have: all that are folded, or in a record of a
// writer that has not ended, each once.
func (l *faulty) counted(p *process) (n int64) {
	// An observation may be in several batches of the model, and counts once. A history that counts it for each of
	// them has more than this.
	has := make([]bool, p.observed)
	mark := func(s span) {
		for i := s.from; i < s.to; i++ {
			has[i] = true
		}
	}

	// A folded batch stays, whatever becomes of its writer. A record counts until its writer has ended.
	for _, s := range l.folded[p.name] {
		mark(s)
	}
	for writer, record := range l.records {
		if instance, _, _ := strings.Cut(writer, "#"); instance == p.name && !l.ended[writer] {
			mark(record.sealed)
			mark(record.open)
		}
	}

	for i := range has {
		if has[i] {
			n++
		}
	}
	return n
}

// dropped returns how many observations a process has dropped although they are not folded. A judge had taken such a
// process for gone, or it had not written for half a day. That loss is allowed, and no other one.
func (l *faulty) dropped(p *process) (n int64) {
	for i := range p.observed {
		in := func(s span) bool { return s.from <= i && i < s.to }
		isDropped, isFolded := false, false
		for _, s := range p.dropped {
			isDropped = isDropped || in(s)
		}
		for _, s := range l.folded[p.name] {
			isFolded = isFolded || in(s)
		}
		if isDropped && !isFolded {
			n++
		}
	}
	return n
}

// describe writes all that the model has of a process, for the message of a failure.
func (l *faulty) describe(p *process) string {
	var b strings.Builder
	fmt.Fprintf(&b, "folded %v\n", l.folded[p.name])
	for writer, record := range l.records {
		if instance, _, _ := strings.Cut(writer, "#"); instance == p.name {
			fmt.Fprintf(&b, "%s, ended %t: %+v\n", writer, l.ended[writer], record)
		}
	}
	return b.String()
}

// put is m[k] = v for a map that may be nil.
func put[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[k] = v
	return m
}
