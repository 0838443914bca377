package shadow

import (
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"
)

// RedButton says from outside the program that the authoritative is to be enforced
// at once, whatever the fleet's stage and without Redis. See also
// Harness.EnforceAuthoritative.
type RedButton struct {
	// File presses the button while it exists. It is looked for once a second.
	File string
	// Signal presses the button for good.
	Signal os.Signal
}

// button is pressed as long as anybody presses it.
type button struct {
	cfg                      RedButton
	log                      *slog.Logger
	on                       atomic.Bool // what requests look at
	mu                       sync.Mutex
	byHand, byFile, bySignal bool // guarded by mu

	stop chan struct{}
	done sync.WaitGroup
}

func newButton(cfg RedButton, log *slog.Logger) *button {
	return &button{cfg: cfg, log: log, stop: make(chan struct{})}
}

func (b *button) pressed() bool { return b.on.Load() }

// set changes one of those who press.
func (b *button) set(who *bool, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*who = on
	now := b.byHand || b.byFile || b.bySignal
	if b.on.Swap(now) == now {
		return
	}
	if now {
		b.log.Warn("shadowlimit: the red button is pressed: this instance enforces the authoritative for all", "by_hand", b.byHand, "by_file", b.byFile, "by_signal", b.bySignal)
	} else {
		b.log.Info("shadowlimit: the red button is released: this instance follows the fleet's stages")
	}
}

func (b *button) press(on bool) { b.set(&b.byHand, on) }

// start watches the file and the signal until close. The file is looked for before
// the first request.
func (b *button) start() {
	if b.cfg.File == "" && b.cfg.Signal == nil {
		return
	}
	signals := make(chan os.Signal, 1)
	if b.cfg.Signal != nil {
		signal.Notify(signals, b.cfg.Signal)
	}
	b.look()
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
				b.look()
			}
		}
	})
}

// look presses the button if the file is there. A file that cannot be looked for, as
// on a disk that fails, leaves it as it is.
func (b *button) look() {
	if b.cfg.File == "" {
		return
	}
	if _, err := os.Stat(b.cfg.File); err == nil || os.IsNotExist(err) {
		b.set(&b.byFile, err == nil)
	}
}

func (b *button) close() {
	b.mu.Lock()
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}
	b.mu.Unlock()
	b.done.Wait()
}
