package fleet

import (
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ButtonConfig is what presses a button from outside of the program; see shadow.RedButton.
type ButtonConfig struct {
	File   string    // "": none
	Signal os.Signal // nil: none
}

// presser is an origin of a press. Each presses and releases for itself: releasing one must
// not release what another operator has pressed.
type presser int

const (
	byProgram presser = iota
	byFile
	BySignal
	ByHandler
	pressers // their number
)

func (p presser) String() string { return [pressers]string{"program", "file", "signal", "handler"}[p] }

// keptPressers are those whose press outlives the process. The file is its own memory, and
// the program decides again.
var keptPressers = []presser{BySignal, ByHandler}

// button is pressed as long as any of its pressers presses it.
type button struct {
	cfg ButtonConfig
	log *slog.Logger
	// on is whether any of them presses. Every request reads it, and set alone writes it.
	on *atomic.Bool

	// mu guards the pressers, and on against a second set that has read older ones. It is
	// held while changed runs.
	mu      sync.Mutex
	by      [pressers]bool
	changed func(pressed bool) // nil until start

	stat func(name string) (os.FileInfo, error)
	stop chan struct{} // closed by close, to end the watch
	done sync.WaitGroup
}

func NewButton(cfg ButtonConfig, on *atomic.Bool, log *slog.Logger) *button {
	return &button{cfg: cfg, on: on, log: log, stat: os.Stat, stop: make(chan struct{})}
}

func (b *button) pressed() bool { return b.on.Load() }

// pressedBy names the files, signals and callers that press.
func (b *button) pressedBy() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.names()
}

// names is pressedBy. Requires mu.
func (b *button) names() []string {
	list := []string{} // not nil: an empty list is [] in JSON
	for p, on := range b.by {
		if on {
			list = append(list, presser(p).String())
		}
	}
	return list
}

// Set changes some pressers, and logs if the button as a whole changes.
func (b *button) Set(on bool, list ...presser) {
	b.mu.Lock()
	defer b.mu.Unlock()

	for _, p := range list {
		b.by[p] = on
	}
	now := slices.Contains(b.by[:], true)
	if b.on.Swap(now) == now {
		return
	}

	if now {
		b.log.Warn("shadowlimit: the red button is pressed: this instance enforces the authoritative for every key", "by", b.names())
	} else {
		b.log.Info("shadowlimit: the red button is released: this instance follows the fleet's stages")
	}
	if b.changed != nil {
		b.changed(now)
	}
}

func (b *button) Press(on bool) { b.Set(on, byProgram) }

// start presses the button if it was pressed when the last run ended, and watches the file
// and the signal until close. A button that is found pressed orders nothing: the order of
// that press is stored, or kept beside it. Changed is called for each later change.
func (b *button) start(kept []string, changed func(pressed bool)) {
	for _, p := range keptPressers {
		if slices.Contains(kept, p.String()) {
			b.Set(true, p)
		}
	}

	// A process that starts again during an incident must not enforce the candidate until
	// the first tick. A disk that hangs must not keep it from starting.
	file := b.look()
	select {
	case found := <-file:
		b.found(found)
		file = nil
	case <-time.After(Timeout):
		b.log.Warn("shadowlimit: the disk with the file of the red button does not answer: press it by the signal or the handler", "file", b.cfg.File)
	}
	b.mu.Lock()
	b.changed = changed
	b.mu.Unlock()
	if b.cfg.File != "" || b.cfg.Signal != nil {
		b.watch(file)
	}
}

// watch looks at the file and the signal until close. File is a look that is under way; nil without one.
func (b *button) watch(file <-chan fileLook) {
	// One place is enough: a delivery never blocks, and a second signal changes nothing.
	signals := make(chan os.Signal, 1)
	if b.cfg.Signal != nil {
		signal.Notify(signals, b.cfg.Signal)
	}

	b.done.Go(func() {
		defer signal.Stop(signals)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()

		for {
			select {
			case <-b.stop:
				return
			case <-signals:
				b.Set(true, BySignal)
			case found := <-file:
				b.found(found)
				file = nil
			case <-ticker.C:
				if file == nil {
					file = b.look()
				}
			}
		}
	})
}

// fileLook is whether the button's file exists, if that is known.
type fileLook struct{ exists, known bool }

// look asks the disk whether the file exists. A disk that hangs keeps the goroutine that asks, and no other: the next look waits for
// it.
func (b *button) look() <-chan fileLook {
	answer := make(chan fileLook, 1)
	if b.cfg.File == "" {
		answer <- fileLook{}
		return answer
	}
	go func() {
		_, err := b.stat(b.cfg.File)
		answer <- fileLook{exists: err == nil, known: err == nil || os.IsNotExist(err)}
	}()
	return answer
}

// found presses the button while the file exists. If that is not known, as on a disk
// that fails, the button stays as it is.
func (b *button) found(l fileLook) {
	if l.known {
		b.Set(l.exists, byFile)
	}
}

// Close ends the watch. It may be called more than once.
func (b *button) Close() {
	b.mu.Lock()
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}

	// The watch may be about to set a source, which takes the lock.
	b.mu.Unlock()
	b.done.Wait()
}
