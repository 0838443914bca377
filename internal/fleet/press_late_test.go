package fleet

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// slowHandler is a log that takes longer than a disk is waited for.
type slowHandler struct{ slog.Handler }

func (slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (slowHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "shadowlimit: the last press of the red button on disk cannot be used" {
		time.Sleep(2 * Timeout)
	}
	return nil
}

// A read of the last press that comes too late writes nothing that the button reads: the race detector finds it.
func TestPressThatIsReadTooLateIsDropped(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.button1.json"), []byte("{no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}

	synctest.Test(t, func(t *testing.T) {
		f, _ := idleOn(stages.NewMemoryStore(), "x")
		f.Log = slog.New(slowHandler{slog.DiscardHandler})
		f.Disk = &Disk{dir: dir, name: "x"}

		f.button.start(t.Context()) // gives up after Timeout
		if f.Button.pressed() {
			t.Error("pressed, although the disk has not answered")
		}
		time.Sleep(2 * Timeout) // until the read ends
	})
}
