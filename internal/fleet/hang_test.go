//go:build unix

package fleet

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A disk that hangs under the button's file keeps neither the start nor the signal.
func TestButtonOnADiskThatHangs(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	b := NewButton(ButtonConfig{File: filepath.Join(t.TempDir(), "pressed"), Signal: syscall.SIGUSR2}, new(atomic.Bool), slog.New(slog.DiscardHandler))
	b.stat = func(string) (os.FileInfo, error) { <-hang; return nil, os.ErrNotExist }
	pressed := make(chan bool, 1)
	b.start(nil, func(on bool) { pressed <- on })
	defer b.Close()

	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	if on := <-pressed; !on || !b.pressed() {
		t.Error("the signal has not pressed the button")
	}
}

// A signal of the service that does not return keeps no heartbeat for longer than 100 ms, is logged once, and counts again when it has
// returned.
func TestSignalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logLines
		log := slog.New(&lines)
		var s service
		hang := make(chan struct{})
		signal := func() float64 { <-hang; return 0.5 }
		for range 3 {
			began := time.Now()
			if v := s.saturation(signal, log); v != nil || time.Since(began) != signalWithin {
				t.Fatalf("%v after %s", v, time.Since(began))
			}
		}
		close(hang)
		synctest.Wait()
		if v := s.saturation(signal, log); v == nil || *v != 0.5 || lines.n != 1 {
			t.Errorf("%v, %d lines", v, lines.n)
		}
	})
}

// logLines counts its lines.
type logLines struct{ n int }

func (c *logLines) Enabled(context.Context, slog.Level) bool { return true }
func (c *logLines) Handle(context.Context, slog.Record) error {
	c.n++
	return nil
}
func (c *logLines) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *logLines) WithGroup(string) slog.Handler      { return c }
