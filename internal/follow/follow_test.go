package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/fleet"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// bench follows logs in a folder, and can kill what does so.
type bench struct {
	*testing.T
	dir    string
	logs   []string
	stdin  io.Reader
	state  string // "" for none
	set    *policies.Set
	store  stages.Store
	ledger evidence.Ledger

	*Follower
	fleet *fleet.Fleet
}

const file = `
version: 1
name: edge
policies:
  - name: p
    key: [request.ip]
    authoritative: { limiter: log }
    candidate: { algorithm: %s, limit: 5, window: 2s }
`

func newBench(t *testing.T, algorithm string, logs ...string) *bench {
	set, err := policies.Load("p.yaml", fmt.Appendf(nil, file, algorithm))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, dir: t.TempDir(), set: set, store: stages.NewMemoryStore(), ledger: evidence.NewMemoryLedger()}
	for _, name := range logs {
		b.logs = append(b.logs, filepath.Join(b.dir, name))
	}
	b.state = filepath.Join(b.dir, "state", "s")
	return b
}

// start starts a process that follows.
func (b *bench) start() {
	b.Helper()
	p := b.set.Policies[0]
	log := slog.New(slog.DiscardHandler)
	b.fleet = fleet.New(fleet.Config{
		ID: fmt.Sprintf("f-%08x", rand.Uint32()), Name: "edge", Log: log, Store: b.store, Ledger: b.ledger, ByOwner: true,
		Button: fleet.NewButton(fleet.ButtonConfig{}, new(atomic.Bool), log), Seen: func(time.Duration, int64) {},
		SilentStores: func() []string { return nil }, OwnStoreIsSilent: func() bool { return false },
	})
	b.fleet.Replan(&fleet.Plan{Policies: []*fleet.Policy{{
		Spec: stages.Spec{
			Policy: p.Name, Fingerprint: p.Fingerprint(), Followed: true, Window: 2 * time.Second, Config: stages.ConfigOf(p.Promotion),
		},
		Compared: true, Stage: stages.NewCurrent(), Recorder: evidence.NewRecorder(nil), FellBack: func() bool { return false },
	}}}, func() {})

	b.Follower = New(Config{
		Name: "edge", Logs: b.logs, Stdin: b.stdin, Policies: b.set.Policies, Fleet: b.fleet, State: b.state, Log: log,
		Start: func(ctx context.Context) error { b.fleet.Start(ctx); return nil },
		Charge: func(e accesslog.Event) (Answer, []Check) {
			ip, _ := e.Field("ip")
			status, _ := e.Field("status")
			answer := Allowed
			if status == "429" {
				answer = Denied
			}
			return answer, []Check{{Key: ip, Cost: 1, Limit: algorithms.Limit{Requests: 5, Window: 2 * time.Second}}}
		},
		Reader: accesslog.Config{Requests: true},
	})
	if err := b.Follower.start(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// work lets it work.
func (b *bench) work(turns int) {
	b.Helper()
	for range turns {
		if err := b.turn(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// kill ends it without a word.
func (b *bench) kill() {
	b.fleet.Kill()()
	b.Follower.close()
}

// finish ends it as SIGTERM does.
func (b *bench) finish() {
	b.Helper()
	if err := b.end(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.kill()
}

// counted returns what the ledger has counted, and the keys that lose most.
func (b *bench) counted() (sum evidence.Tally, top map[string]int64) {
	b.Helper()
	states, err := b.store.States(b.Context(), []string{"p"})
	if err != nil {
		b.Fatal(err)
	}
	id := states[0].LedgerID("p")
	slots, _, err := b.ledger.Slots(b.Context(), id, 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	for i := range slots {
		sum.Add(slots[i].Tally)
	}
	list, err := b.ledger.Top(b.Context(), id, evidence.KeysNewlyDenied)
	if err != nil {
		b.Fatal(err)
	}
	top = map[string]int64{}
	for _, k := range list {
		top[k.Key] = k.Count
	}
	return sum, top
}

// writer writes lines as a server does, and remembers them.
type writer struct {
	*testing.T
	path string
	file *os.File
	rand *rand.Rand
	all  []written

	rotations int
}

type written struct {
	at     time.Time
	key    string
	denied bool
}

func newWriter(t *testing.T, path string, seed uint64) *writer {
	w := &writer{T: t, path: path, rand: rand.New(rand.NewPCG(seed, 1))}
	w.open()
	return w
}

func (w *writer) open() {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.Fatal(err)
	}
	w.file = f
}

// write writes some lines of now. Some are up to a second late, as those of several workers are.
func (w *writer) write(n int) {
	for range n {
		one := written{
			time.Now().Add(-time.Duration(w.rand.IntN(900)) * time.Millisecond).Truncate(time.Millisecond),
			fmt.Sprintf("192.0.2.%d", w.rand.IntN(4)), w.rand.IntN(4) == 0,
		}
		w.all = append(w.all, one)
		status := 200
		if one.denied {
			status = 429
		}
		line := fmt.Sprintf(`{"time":"%.3f","ip":"%s","status":%d}`+"\n", float64(one.at.UnixMilli())/1000, one.key, status)
		if w.rand.IntN(20) == 0 {
			line = "no request\n" + line
		}
		if _, err := io.WriteString(w.file, line); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Duration(w.rand.IntN(200)) * time.Millisecond)
	}
}

// rename rotates as logrotate does by default; the server writes on into the old file until it is told.
func (w *writer) rename() {
	if err := os.Rename(w.path, w.old()); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(w.path, nil, 0o644); err != nil {
		w.Fatal(err)
	}
	w.write(w.rand.IntN(3))
	w.file.Close()
	w.open()
}

// truncate rotates as logrotate does by copytruncate.
func (w *writer) truncate() {
	text, err := os.ReadFile(w.path)
	if err == nil {
		err = os.WriteFile(w.old(), text, 0o644)
	}
	if err == nil {
		err = os.Truncate(w.path, 0)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// old returns a name for a file that is rotated away.
func (w *writer) old() string {
	w.rotations++
	return fmt.Sprintf("%s.%d", w.path, w.rotations)
}

// want is what a pair in memory says of all lines, in their order: what a replay counts.
func (b *bench) want(logs ...*writer) (sum evidence.Tally, top map[string]int64) {
	var o order
	var s source
	for i, w := range logs {
		for n, one := range w.all {
			answer := Allowed
			if one.denied {
				answer = Denied
			}
			o.add(held{place{one.at.UnixMicro(), i, 0, int64(n)}, &s, answer, []Check{{Key: one.key}}})
		}
	}

	pair := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	top = map[string]int64{}
	for {
		h, ok := o.next(true)
		if !ok {
			return sum, top
		}
		check := algorithms.Check{
			Policy: "p", Key: h.checks[0].Key, Cost: 1, At: time.UnixMicro(h.At), Enforced: algorithms.Candidate,
			Sides: [2]algorithms.Side{{}, {
				Algorithm: b.set.Policies[0].Sides[1].Algorithm, Limit: algorithms.Limit{Requests: 5, Window: 2 * time.Second},
			}},
		}
		var into [1][2]algorithms.Observation
		if err := pair.Evaluate(b.Context(), []algorithms.Check{check}, into[:]); err != nil {
			b.Fatal(err)
		}
		into[0][0] = algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: h.answer == Allowed}}
		outcome := evidence.Compare(&into[0])
		if sum[outcome]++; outcome == evidence.NewlyDenied {
			top[check.Key]++
		}
	}
}

func (b *bench) check(logs ...*writer) {
	b.Helper()
	got, top := b.counted()
	want, wantTop := b.want(logs...)
	if got != want {
		b.Errorf("counted %v, want %v", got, want)
	}
	if !reflect.DeepEqual(top, wantTop) {
		b.Errorf("keys newly denied %v, want %v", top, wantTop)
	}
}

// Whatever is rotated and killed, and however often, each line counts once, as a replay of all of them counts it.
func TestEachLineCountsOnce(t *testing.T) {
	for n, algorithm := range []string{"gcra", "token_bucket", "fixed_window", "sliding_window_log", "sliding_window_counter", "fixed_window_anchored"} {
		t.Run(algorithm, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, algorithm, "a.log", "b.log")
				one, other := newWriter(t, b.logs[0], uint64(n)), newWriter(t, b.logs[1], uint64(n+100))
				chance := rand.New(rand.NewPCG(uint64(n), 2))
				b.start()
				b.work(1)
				for range 60 {
					one.write(chance.IntN(8))
					other.write(chance.IntN(4))
					b.work(chance.IntN(40))
					switch chance.IntN(6) {
					case 0:
						one.rename()
					case 1:
						one.truncate()
					case 2:
						b.kill()
						one.write(chance.IntN(3))
						if chance.IntN(2) == 0 {
							one.rename()
							one.write(chance.IntN(3))
						}
						b.start()
					case 3:
						b.kill()
						one.write(chance.IntN(3))
						if chance.IntN(2) == 0 {
							one.truncate()
						}
						b.start()
					case 4:
						time.Sleep(time.Second) // what comes behind an end is judged behind it
						b.finish()
						b.start()
					}
				}
				b.finish()
				b.check(one, other)

				bad := 0
				for _, w := range []*writer{one, other} {
					bad += len(w.all)
				}
				if lines := b.Lines(); lines.Read != int64(bad) || lines.TooOld+lines.Ahead != 0 {
					t.Errorf("%+v of %d lines", lines, bad)
				}
			})
		})
	}
}

// forgetful is a ledger that says of some writes that they have failed, of which some were done.
type forgetful struct {
	evidence.Ledger
	fail atomic.Int64 // 1: before the write, 2: after it
}

func (l *forgetful) Add(ctx context.Context, id evidence.ID, b *evidence.Batch) (int, error) {
	if l.fail.Load() == 1 {
		return 0, errors.New("no answer")
	}
	n, err := l.Ledger.Add(ctx, id, b)
	if l.fail.Load() == 2 {
		return 0, errors.New("no answer")
	}
	return n, err
}

// A process that is killed between the write of its state and the ledger's answer writes the same counts again, and they count once.
func TestKilledWithoutAnAnswer(t *testing.T) {
	for fail := 1; fail <= 2; fail++ {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, "gcra", "a.log")
			ledger := &forgetful{Ledger: b.ledger}
			b.ledger = ledger
			w := newWriter(t, b.logs[0], 7)
			b.start()
			for range 5 {
				b.work(1)
				w.write(20)
				b.work(22)
				ledger.fail.Store(int64(fail))
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				if err := b.checkpoint(ctx); err == nil {
					t.Fatal("the ledger has taken it")
				}
				cancel()
				b.kill()
				ledger.fail.Store(0)
				b.start()
			}
			b.finish()
			b.check(w)
		})
	}
}

// After an outage of the ledger everything is written within the usual time, and nothing was lost.
func TestOutageOfLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "gcra", "a.log")
		ledger := &forgetful{Ledger: b.ledger}
		b.ledger = ledger
		w := newWriter(t, b.logs[0], 9)
		b.start()
		b.work(1)
		w.write(30)
		ledger.fail.Store(2)
		ended := make(chan struct{})
		go func() {
			time.Sleep(time.Minute)
			ledger.fail.Store(0)
			close(ended)
		}()
		b.work(80) // some of them wait for the ledger
		<-ended
		w.write(30)
		b.work(120)
		b.check(w)
		b.kill()
	})
}

// A log that is not there yet is waited for, and one that comes late is read from its start.
func TestWaitsForLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "gcra", "a.log")
		b.start()
		b.work(20)
		w := newWriter(t, b.logs[0], 3)
		w.write(20)
		b.work(60)
		b.finish()
		b.check(w)
	})
}

// What is no log is refused, and so is a state that another process has.
func TestRefusals(t *testing.T) {
	b := newBench(t, "gcra", "a.log")
	newWriter(t, b.logs[0], 1)
	b.start()
	defer b.kill()
	if _, err := openState(b.cfg.State); !errors.Is(err, ErrInUse) {
		t.Errorf("a second process may follow: %v", err)
	}
	packed := filepath.Join(b.dir, "packed.log")
	if err := os.WriteFile(packed, []byte("\x1f\x8b\x08\x00"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/zero", b.dir, packed} {
		f := New(Config{Logs: []string{path}, Log: slog.New(slog.DiscardHandler)})
		if _, err := f.open(); err == nil {
			t.Errorf("%s is followed", path)
		}
	}
}

// Standard input ends, and what it had counts then.
func TestStandardInputEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "gcra", "a.log")
		w := newWriter(t, b.logs[0], 1)
		w.write(50)
		text, err := os.ReadFile(b.logs[0])
		if err != nil {
			t.Fatal(err)
		}
		b.logs, b.stdin = []string{"-"}, strings.NewReader(strings.TrimRight(string(text), "\n"))
		b.start()
		for !b.over() {
			b.work(1)
		}
		b.finish()
		b.check(w)
	})
}

// A line that is longer than a parser reads is counted as one that cannot be read, and the next one is read.
func TestLongLine(t *testing.T) {
	text := "short\n" + strings.Repeat("x", 3*accesslog.MaxLine) + "\nlast"
	s := source{in: newStream(strings.NewReader(text))}
	var places, lengths []int
	for !s.over || len(s.buf) > 0 {
		line, at, ok, err := s.line(false)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			places, lengths = append(places, int(at)), append(lengths, len(line))
		}
	}
	want := []int{0, 6, 6 + 3*accesslog.MaxLine + 1}
	if !reflect.DeepEqual(places, want) || lengths[1] > accesslog.MaxLine+2*chunk {
		t.Errorf("lines at %v of %v bytes, want them at %v", places, lengths, want)
	}
}

// What was rotated before anybody followed is of before the beginning, also after a restart.
func TestBeginsWithTheLogAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "gcra", "a.log")
		w := newWriter(t, b.logs[0], 1)
		w.write(20)
		w.rename()
		begun := newWriter(t, b.logs[0], 2)
		begun.write(30)
		b.start()
		b.work(3)
		b.kill()
		b.start()
		time.Sleep(lookEvery)
		b.work(3)
		b.finish()
		b.check(begun)
	})
}

// A file that was renamed while nothing was read, as where the store was away, is read to its end.
func TestRestOfARenamedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "gcra", "a.log")
		w := newWriter(t, b.logs[0], 1)
		w.write(20)
		b.start()
		b.work(40)                       // all of it is judged
		b.read(b.Context(), linesAtOnce) // there is no more, and then the store is away
		time.Sleep(2 * drainFor)
		w.write(20)
		w.rename()
		b.look()
		b.work(3)
		b.finish()
		b.check(w)
	})
}

// Where no position is kept, nobody goes on at a last line without its end, and it counts.
func TestLastLineWithoutItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, state := range []string{"", "kept"} {
			b := newBench(t, "gcra", "a.log")
			if b.state = state; state != "" {
				b.state = filepath.Join(b.dir, state)
			}
			w := newWriter(t, b.logs[0], 1)
			w.write(20)
			info, err := w.file.Stat()
			if err == nil {
				err = os.Truncate(w.path, info.Size()-1)
			}
			if err != nil {
				t.Fatal(err)
			}
			if state != "" { // its end may still come
				w.all = w.all[:19]
			}
			b.start()
			b.work(3)
			b.finish()
			b.check(w)
		}
	})
}

// once fails once.
type once struct {
	reader
	failed bool
}

func (r *once) readAt(p []byte, offset int64) (int, error) {
	if !r.failed {
		r.failed = true
		return 0, errors.New("input/output error")
	}
	return r.reader.readAt(p, offset)
}

// A read that fails is tried again, and nothing is read twice.
func TestReadThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "gcra", "a.log")
		w := newWriter(t, b.logs[0], 1)
		w.write(20)
		b.start()
		b.work(3)
		b.sources[0].in = &once{reader: b.sources[0].in}
		w.write(20)
		for range 5 {
			b.work(3)
			time.Sleep(lookEvery)
		}
		b.finish()
		b.check(w)
	})
}
