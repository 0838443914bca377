package shadow

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// stuckHandler is a log that does not return until it is released.
type stuckHandler struct {
	slog.Handler
	release chan struct{}
}

func (h stuckHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h stuckHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "shadowlimit: the last press of the red button on disk cannot be used" {
		<-h.release
	}
	return nil
}

// A read of the last press that comes too late writes nothing that the button reads. The race detector fails otherwise.
func TestPressThatIsReadTooLateIsDropped(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.button.json"), []byte("{no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}

	synctest.Test(t, func(t *testing.T) {
		handler := stuckHandler{slog.DiscardHandler, make(chan struct{})}
		f := &fleet{}
		f.log = slog.New(handler)
		f.disk = &disk{dir: dir, name: "x"}
		f.button = newButton(RedButton{}, f.log)

		f.startButton(t.Context()) // gives up after fleetTimeout
		if f.button.pressed() || f.orders.written != nil {
			t.Errorf("pressed %t, file %q, although the disk has not answered", f.button.pressed(), f.orders.written)
		}
		close(handler.release)
		synctest.Wait()
		if f.orders.written != nil {
			t.Error("the late answer was taken")
		}
	})
}
