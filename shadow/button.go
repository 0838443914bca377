package shadow

import (
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"
)

// RedButton is how to enforce the authoritative at once from outside of the program,
// whatever the fleet's stage and without Redis. See also Harness.EnforceAuthoritative.
type RedButton struct {
	// File presses the button while it exists. It is checked once a second; "" means no
	// file. Its content does not matter.
	File string
	// Signal presses the button until the process ends; nil means no signal.
	Signal os.Signal
}

// button is pressed as long as any of its sources presses it. Each source has a flag of
// its own: releasing one must not release what another operator has pressed.
type button struct {
	cfg RedButton
	log *slog.Logger
	// on is whether any source presses. Every request reads it, and set alone writes it.
	on atomic.Bool

	// mu guards the sources, and on against a second set that has read older sources.
	mu                       sync.Mutex
	byHand, byFile, bySignal bool

	stop chan struct{} // closed by close, to end the watch
	done sync.WaitGroup
}

func newButton(cfg RedButton, log *slog.Logger) *button {
	return &button{cfg: cfg, log: log, stop: make(chan struct{})}
}

func (b *button) pressed() bool { return b.on.Load() }

// set changes one of the sources, and logs if the button as a whole changes.
func (b *button) set(source *bool, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	*source = on
	now := b.byHand || b.byFile || b.bySignal
	if b.on.Swap(now) == now {
		return
	}

	if now {
		b.log.Warn("shadowlimit: the red button is pressed: this instance enforces the authoritative for every key",
			"by_hand", b.byHand, "by_file", b.byFile, "by_signal", b.bySignal)
	} else {
		b.log.Info("shadowlimit: the red button is released: this instance follows the fleet's stages")
	}
}

func (b *button) press(on bool) { b.set(&b.byHand, on) }

// start watches the file and the signal until close. The file is checked before the first
// request.
func (b *button) start() {
	if b.cfg.File == "" && b.cfg.Signal == nil {
		return
	}

	// One place is enough: a delivery never blocks, and a second signal changes nothing.
	signals := make(chan os.Signal, 1)
	if b.cfg.Signal != nil {
		signal.Notify(signals, b.cfg.Signal)
	}

	// A process that starts again during an incident must not enforce the candidate until
	// the first tick.
	b.checkFile()
	b.done.Go(func() {
		defer signal.Stop(signals)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()

		for {
			select {
			case <-b.stop:
				return
			case <-signals:
				b.set(&b.bySignal, true)
			case <-ticker.C:
				b.checkFile()
			}
		}
	})
}

// checkFile presses the button while the file exists. If that is not known, as on a disk
// that fails, the button stays as it is.
func (b *button) checkFile() {
	if b.cfg.File == "" {
		return
	}
	if _, err := os.Stat(b.cfg.File); err == nil || os.IsNotExist(err) {
		b.set(&b.byFile, err == nil)
	}
}

// close ends the watch. It may be called more than once.
func (b *button) close() {
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
