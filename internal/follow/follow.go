package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/fleet"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Config says what to follow, and how.
type Config struct {
	Name string // of the service
	Logs []string
	// Stdin is the log named "-". It has no position: what was read and not written when the process is killed is lost.
	Stdin  io.Reader
	Reader accesslog.Config
	// Charge returns what a line charges, and what the log says of it. The event is only lent.
	Charge func(accesslog.Event) (Answer, []Check)
	// Policies are those that Check.Policy counts. Each has a candidate.
	Policies   []*policies.Policy
	Generation int64
	// Fleet has a policy of the name of each of them. Start starts it.
	Fleet *fleet.Fleet
	Start func(context.Context) error
	// State is the file with the position; "" for none.
	State string
	Log   *slog.Logger
}

// Times of the loop.
const (
	// pollEvery is how often a log is looked at that has nothing new.
	pollEvery = 100 * time.Millisecond
	lookEvery = 500 * time.Millisecond
	// checkpointEvery is how often counts are written, and at most a twentieth of the time is spent with the state.
	checkpointEvery = 5 * time.Second
	checkpointShare = 20
	// retryEvery is how often a store is asked that does not answer. Nothing is read until it does: the log keeps it.
	retryEvery = time.Second
	// firstWithin is how long standard input may take to its first line, which says when the evidence begins.
	firstWithin = time.Second
	// linesAtOnce are read before the clock is looked at.
	linesAtOnce = 2048
	// The ledger takes what is two hours old, and ten minutes ahead. There is some time to write it.
	oldAfter   = 110 * time.Minute
	aheadAfter = 9 * time.Minute
	// lastFor is how long the rest of the log may take at the end, and the last write.
	lastFor = 2 * time.Second
	// forgottenAfter is when the ledger may have forgotten the numbers of what was written.
	forgottenAfter = 150 * time.Minute
	shownBad       = 5
)

// Follower follows logs.
type Follower struct {
	cfg    Config
	counts counters
	judge  judge
	order  order
	files

	state   *stateFile // nil: there is none
	until   int64      // us; up to this instant the logs were read, at the last checkpoint
	minute  int64      // of the last line that was counted
	unsent  []fleet.Counts
	written time.Time // when the last checkpoint was
	took    time.Duration
	came    time.Time // when a line came last
}

// New returns a follower that has not begun.
func New(cfg Config) *Follower {
	files := files{logs: cfg.Logs, log: cfg.Log, missing: map[int]bool{}, trouble: map[int]string{}}
	return &Follower{cfg: cfg, files: files, came: time.Now()}
}

// Run follows until ctx is over, or standard input where that is all there is. It then writes the last counts.
func (f *Follower) Run(ctx context.Context) (err error) {
	defer f.close()
	if err := f.start(ctx); err != nil {
		return leftOver(ctx, err)
	}
	for ctx.Err() == nil && !f.over() {
		if err := f.turn(ctx); err != nil {
			return err
		}
	}
	return f.end(ctx)
}

// start goes on where the state ends.
func (f *Follower) start(ctx context.Context) error {
	has, err := f.open()
	if err != nil {
		return err
	}

	// What the candidates remember is of before the first line, so it comes first; and the first lines say when the evidence begins.
	for _, p := range f.cfg.Policies {
		of := f.cfg.Fleet.Policy(p.Name)
		f.judge.policies = append(f.judge.policies, newJudged(f.cfg.Name, p, of.Recorder, of.Spec.Window))
	}
	if has != nil {
		f.restore(has)
	}
	for begun := time.Now(); f.read(ctx, mostHeld) == 0 && f.stream != nil && !f.over() && time.Since(begun) < firstWithin; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery / 10):
		}
		f.stream.eof = false
	}
	return f.join(ctx, has) // the first turn keeps the position: a log may be rotated at once
}

func (f *Follower) close() {
	f.closeAll()
	if f.state != nil {
		f.state.close()
	}
}

// leftOver is nil where ctx has ended what has failed.
func leftOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// open takes the state, and opens the logs.
func (f *Follower) open() (has *state, err error) {
	if f.cfg.State != "" {
		if f.state, err = openState(f.cfg.State); err != nil {
			return nil, err
		}
		if has, err = f.state.load(f.cfg.Name); err != nil {
			return nil, err
		}
	}
	f.looked = time.Now()
	if has != nil {
		err = f.resume(has)
	} else {
		f.beginFresh()
	}
	for log, path := range f.cfg.Logs {
		if path == "-" {
			f.seq++
			f.stream = &source{log: log, seq: f.seq, in: newStream(f.cfg.Stdin)}
			f.sources = append(f.sources, f.stream)
		}
	}
	for log, path := range f.cfg.Logs {
		if err == nil && path != "-" {
			err = f.lookAt(log, path)
		}
	}
	return has, err
}

// restore takes over what the candidates have remembered, unless they are others by now.
func (f *Follower) restore(has *state) {
	f.order.mark, f.until = has.Mark, has.Until
	f.counts.set(has.Lines)
	for _, saved := range has.Candidates {
		for i, p := range f.cfg.Policies {
			if of := f.cfg.Fleet.Policy(p.Name); p.Name == saved.Policy && of.Spec.Fingerprint == saved.Fingerprint && saved.Keys != nil {
				f.judge.policies[i].states = saved.Keys
				f.judge.keys += len(saved.Keys)
			}
		}
	}
}

// join begins the policies, joins the fleet, and writes what may not have been written before the last end.
func (f *Follower) join(ctx context.Context, has *state) error {
	since := time.Time{}
	if len(f.order.lines) > 0 {
		oldest := f.cfg.Fleet.Now().Add(-oldAfter)
		if since = time.UnixMicro(f.order.lines[0].At); since.Before(oldest) {
			since = oldest
		}
		since = since.Truncate(time.Minute).UTC()
	}
	err := f.insist(ctx, "read the stages", func() error {
		ctx, cancel := context.WithTimeout(ctx, fleet.Timeout)
		defer cancel()
		for _, p := range f.cfg.Policies {
			of := f.cfg.Fleet.Policy(p.Name)
			err := stages.BeginAt(ctx, f.cfg.Fleet.Store, p.Name, of.Spec.Fingerprint, f.cfg.Generation, "follow "+f.cfg.Fleet.ID, since)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.cfg.Start(ctx); err != nil {
		return err
	}

	// Evidence begins with the first state that is applied: what is counted before is not part of it.
	err = f.insist(ctx, "read the stages", func() error {
		for _, p := range f.cfg.Policies {
			if f.cfg.Fleet.Policy(p.Name).Stage.State().Fingerprint == "" {
				return cmp.Or(f.cfg.Fleet.Trouble(), errNoStages)
			}
		}
		return nil
	})
	if err != nil || has == nil {
		return err
	}

	if time.Since(has.Saved) < forgottenAfter {
		f.unsent = has.Counts
	}
	until := time.UnixMicro(f.until)
	for _, p := range f.judge.policies {
		p.recorder.Present(until)
	}
	return f.send(ctx)
}

var errNoStages = errors.New("the store has not said yet in which stages the policies are")

// insist does something with the store until it succeeds.
func (f *Follower) insist(ctx context.Context, what string, do func() error) error {
	for failed := false; ; failed = true {
		err := do()
		if err == nil {
			if failed {
				f.cfg.Log.Info("shadowlimit: can " + what + " again")
			}
			return nil
		}
		if !failed {
			f.cfg.Log.Warn("shadowlimit: cannot "+what+"; the log is read on when that works again", "error", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryEvery):
		}

		f.look() // a file that is rotated away meanwhile stays open
	}
}

// turn reads what is there, judges it, and writes now and then.
func (f *Follower) turn(ctx context.Context) error {
	if time.Since(f.looked) >= lookEvery {
		f.look()
	}
	if time.Since(f.woken) >= pollEvery { // also while another log has much to read: lines are judged in order
		f.wake()
	}
	came := f.read(ctx, linesAtOnce)
	f.emit(time.Since(f.came) >= holdFor && f.idle())
	if time.Since(f.written) >= max(checkpointEvery, checkpointShare*f.took) {
		if err := f.checkpoint(ctx); err != nil {
			return leftOver(ctx, err)
		}
	}
	if came > 0 {
		return nil
	}

	// Standard input says when there is more, and files do not.
	in := &stream{}
	if f.stream != nil && !f.stream.in.(*stream).has {
		in = f.stream.in.(*stream)
	}
	select {
	case <-ctx.Done():
	case in.next = <-in.pieces:
		in.has = true
	case <-time.After(pollEvery):
	}
	f.wake()
	return nil
}

// read reads some lines, from the file that is behind the others first, and returns how many there were.
func (f *Follower) read(ctx context.Context, most int) (came int) {
	for came < most && ctx.Err() == nil {
		var s *source
		for _, one := range f.sources {
			if !one.eof && (s == nil || one.lastAt < s.lastAt) {
				s = one
			}
		}
		if s == nil {
			break
		}
		if f.readFrom(s) {
			came++
		}
	}
	if came > 0 {
		f.came = time.Now()
	}

	// A file that has nothing to read holds nobody up.
	low, last := int64(math.MaxInt64), int64(0)
	for _, s := range f.sources {
		if last = max(last, s.lastAt); !s.eof {
			low = min(low, s.lastAt)
		}
	}
	f.order.low = min(low, last)
	return came
}

// readFrom reads one line, and reports whether there was one.
func (f *Follower) readFrom(s *source) bool {
	line, at, ok, err := s.line(s.rest)
	if err != nil {
		if !s.fails {
			f.cfg.Log.Warn("shadowlimit: the log cannot be read; it is tried again", "log", f.cfg.Logs[s.log], "error", err)
		}
		s.eof, s.fails, s.over = true, true, s.file == nil // a file is where it was, and opened again it would count again
		return false
	}
	s.fails = false
	if !ok {
		if s.quiet.IsZero() {
			s.quiet = time.Now()
		}
		return false
	}
	s.quiet = time.Time{}

	before := at < s.read // before a restart
	parser, err := s.parserOf(f.cfg.Reader, line)
	if err == nil && at < parser.Header {
		return true
	}
	var e accesslog.Event
	var isEvent bool
	if err == nil {
		e, isEvent, err = parser.Line(line)
	}
	if err != nil {
		if !before {
			f.bad(s, err)
		}
		return true
	}
	if !isEvent {
		return true
	}

	s.lastAt = max(s.lastAt, e.At)
	h := held{place: place{e.At, s.log, s.seq, at}, source: s}
	if before && h.compare(f.order.mark) <= 0 {
		return true
	}
	h.answer, h.checks = f.cfg.Charge(e)
	f.order.add(h)
	return true
}

func (f *Follower) bad(s *source, err error) {
	n := f.counts.unreadable.Add(1)
	switch {
	case n <= shownBad:
		f.cfg.Log.Warn("shadowlimit: a line cannot be read", "log", f.cfg.Logs[s.log], "error", err)
	case n == shownBad+1:
		f.cfg.Log.Warn("shadowlimit: further lines that cannot be read are only counted: shadowlimit_follow_lines_total")
	}
}

// emit judges the lines that may be judged, in their order.
func (f *Follower) emit(all bool) {
	now := f.cfg.Fleet.Now()
	for {
		h, ok := f.order.next(all)
		if !ok {
			return
		}
		counts := f.countLine(now, h.At)
		for i := range h.checks {
			f.judge.check(h.At, h.answer, &h.checks[i], counts)
		}
	}
}

// countLine counts a line, and reports whether the ledger takes it.
func (f *Follower) countLine(now time.Time, at int64) bool {
	when := time.UnixMicro(at)
	switch age := now.Sub(when); {
	case age > oldAfter:
		f.counts.old.Add(1)
		return false
	case age < -aheadAfter:
		if f.counts.ahead.Add(1) == 1 {
			f.cfg.Log.Warn("shadowlimit: lines are ahead of the clock of the store, and do not count: check the clocks, and --time-zone", "by", -age)
		}
		return false
	}
	f.counts.read.Add(1)

	// Each minute with a line is one in which the log was followed.
	if minute := when.Unix() / 60; minute > f.minute {
		f.minute = minute
		for _, p := range f.judge.policies {
			p.recorder.Present(when)
		}
	}
	if f.lost {
		f.lost = false
		for _, p := range f.judge.policies {
			p.recorder.Mark(when)
		}
	}
	return true
}

// followedUntil returns the instant up to which the logs were read.
func (f *Follower) followedUntil() int64 {
	now := f.cfg.Fleet.Now()
	until := now.UnixMicro()
	if !f.idle() || len(f.order.lines) > 0 {
		until = min(until, f.order.mark.At)
	}
	return max(f.until, until, now.Add(-oldAfter).UnixMicro())
}

// checkpoint keeps where the logs are and what was counted up to there, and writes that.
func (f *Follower) checkpoint(ctx context.Context) error {
	f.judge.sweep(min(f.order.mark.At, f.cfg.Fleet.Now().UnixMicro())) // a line may be ahead of the clock
	until := f.followedUntil()
	err := f.insist(ctx, "write evidence", func() error {
		counts, err := f.cfg.Fleet.Collect(ctx, time.UnixMicro(until))
		if err != nil {
			return err
		}
		f.until = until
		begun := time.Now()
		if err := f.save(counts); err != nil {
			return err
		}
		f.took = time.Since(begun) // without the wait for a store, which is no work
		f.unsent = counts
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.send(ctx); err != nil {
		return err
	}
	f.written = time.Now()
	f.counts.until.Store(until)
	return nil
}

// send writes what is kept and may not be written.
func (f *Follower) send(ctx context.Context) error {
	err := f.insist(ctx, "write evidence", func() error { return f.cfg.Fleet.Write(ctx, f.unsent) })
	if err == nil {
		f.unsent = nil
	}
	return err
}

// save writes the state.
func (f *Follower) save(counts []fleet.Counts) error {
	if f.state == nil {
		return nil
	}
	next := &state{
		Format: format, Name: f.cfg.Name, Saved: time.Now(), Seq: f.seq, Done: f.done, Mark: f.order.mark, Until: f.until,
		Lines: f.counts.lines(), Counts: counts,
	}
	from := map[*source]int64{}
	for i := range f.order.lines {
		h := &f.order.lines[i]
		if first, known := from[h.source]; !known || h.Offset < first {
			from[h.source] = h.Offset
		}
	}
	for _, s := range f.sources {
		if s.file == nil {
			continue
		}
		saved := savedSource{s.log, absolute(f.cfg.Logs[s.log]), s.seq, idOf(s.info), s.head, s.next, max(s.next, s.read)}
		if first, known := from[s]; known {
			saved.From = first
		}
		next.Sources = append(next.Sources, saved)
	}
	for i, p := range f.judge.policies {
		of := f.cfg.Fleet.Policy(f.cfg.Policies[i].Name)
		next.Candidates = append(next.Candidates, savedCandidate{of.Spec.Policy, of.Spec.Fingerprint, p.states})
	}
	return f.state.save(next)
}

// end reads what is there, and writes the last counts.
func (f *Follower) end(ctx context.Context) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFor)
	defer cancel()
	if f.state == nil { // nobody goes on at a last line without its end
		for _, s := range f.sources {
			s.rest, s.eof = true, s.over
		}
	}
	for f.read(last, linesAtOnce) > 0 {
		f.emit(false)
	}
	f.emit(true)

	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFor+fleet.Timeout)
	defer cancel()
	if f.unsent != nil {
		if err := f.send(write); err != nil {
			return unwritten(err, f.cfg.State)
		}
	}
	if err := f.checkpoint(write); err != nil {
		return unwritten(err, f.cfg.State)
	}
	return nil
}

func unwritten(err error, state string) error {
	if state == "" {
		return fmt.Errorf("the last counts are lost: %w", err)
	}
	return fmt.Errorf("the last counts are not written yet: the next start with %s writes them: %w", state, err)
}

// Lines returns what has become of the lines since the state began.
func (f *Follower) Lines() Lines { return f.counts.lines() }

// DefaultState returns where a state is kept that has no name: in a folder, by the service and the logs.
func DefaultState(folder, name string, logs []string) string {
	text := ""
	for _, path := range logs {
		text += absolute(path) + "\x00"
	}
	h := headOfText(text)
	return filepath.Join(folder, "shadowlimit", "follow", fmt.Sprintf("%s-%016x", name, h))
}

// Metrics returns the metrics of a follower, besides those of its harness.
func (f *Follower) Metrics() prometheus.Collector {
	labels := prometheus.Labels{"name": f.cfg.Name}
	return &collector{
		follower: f,
		lines: prometheus.NewDesc("shadowlimit_follow_lines_total", "Lines of the followed logs, by result: read is a request that counts, "+
			"unreadable is none, and too_old and ahead are requests that the ledger does not take.", []string{"result"}, labels),
		behind: prometheus.NewDesc("shadowlimit_follow_behind_seconds", "How long ago the instant is up to which the logs were read and written.",
			nil, labels),
	}
}
