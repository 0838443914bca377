package fleet

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// pressable is an idle instance with a disk, whose button gives orders.
func pressable(store stages.Store, dir string) (*Fleet, *Policy) {
	f, p := idleOn(store, "a")
	f.Disk = &Disk{dir: dir, name: "test"}
	f.button.start(context.Background())
	return f, p
}

// pressIsOnDisk keeps the press as keepLoop does, and reports whether there is a file.
func pressIsOnDisk(t *testing.T, f *Fleet) bool {
	t.Helper()
	must(t, f.button.keepPress())
	_, err := os.Stat(f.Disk.path(pressOnDisk))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// An answer of the store is one to the order that was stored, and neither to one that the button
// has given meanwhile nor to one of another policy.
func TestAnswerIsToItsOwnOrder(t *testing.T) {
	first := order{Press: stages.Press{Fingerprint: "e", Term: 1}}
	second := order{Press: stages.Press{Fingerprint: "e", Term: 2}}
	var o orders
	o.set(map[string]order{"p": second, "q": first})
	if o.answered("p", first.Press, false); len(o.waiting()) != 2 {
		t.Errorf("after the answer to an earlier order: %v", o.waiting())
	}
	if o.answered("p", second.Press, false); len(o.waiting()) != 1 || o.waiting()["q"] != first || len(o.all()) != 2 {
		t.Errorf("after the answer to the order: %v of %v", o.waiting(), o.all())
	}
	if o.answered("p", second.Press, true); len(o.all()) != 1 {
		t.Errorf("after a void one: %v", o.all())
	}
}

// A button rolls back what its instance compares. Another fingerprint that the store has goes on.
func TestOrderNamesTheInstancesFingerprint(t *testing.T) {
	store := stages.NewMemoryStore()
	must(t, stages.Begin(t.Context(), store, "p", "another", 0, "test"))
	f, _ := pressable(store, t.TempDir())
	must(t, f.poller.poll(t.Context()))

	f.Button.Set(true, ByHandler)
	must(t, f.poller.poll(t.Context()))
	states, err := store.States(t.Context(), []string{"p"})
	if s := states[0]; err != nil || s.Stage != stages.Shadow || s.Of("e") != stages.RolledBack || s.Of("another") != stages.Shadow {
		t.Errorf("the store has %s, past %v, %v, want shadow of another fingerprint, and e rolled back", s, s.Past, err)
	}
}

// A pressed button stays on the disk after its order is stored, so that a restart leaves it pressed,
// and until it is released.
func TestPressStaysOnDiskUntilItIsReleased(t *testing.T) {
	store, dir := stages.NewMemoryStore(), t.TempDir()
	f, _ := pressable(store, dir)
	must(t, f.poller.poll(t.Context()))
	f.Button.Set(true, ByHandler)
	if must(t, f.poller.poll(t.Context())); len(f.button.orders.waiting()) != 0 || !pressIsOnDisk(t, f) {
		t.Fatalf("stored: the orders %v are left, and the press must be on the disk", f.button.orders.waiting())
	}

	f, _ = pressable(store, dir)
	if !f.Button.pressed() || !pressIsOnDisk(t, f) {
		t.Error("the button is released by a restart")
	}
	f.Button.Set(false, ByHandler)
	if pressIsOnDisk(t, f) {
		t.Error("the button is released, and the disk has a press")
	}
}

// The press of a file that is gone at the next start is over, and its orders with it.
func TestPressOfAFileThatIsGoneLeavesTheDisk(t *testing.T) {
	store, dir := stages.NewMemoryStore(), t.TempDir()
	f, _ := pressable(store, dir)
	f.Button.Set(true, byFile)
	if !pressIsOnDisk(t, f) {
		t.Fatal("the press is not on the disk")
	}

	f, _ = pressable(store, dir)
	if f.Button.pressed() || f.button.pressKept() || pressIsOnDisk(t, f) || !f.button.pressKept() {
		t.Error("the file is gone, and the disk has its press")
	}
}

// The disk has a press before the store is waited for.
func TestPressIsOnDiskWhileTheStoreHangs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f, _ := pressable(stages.NewMemoryStore(), dir)
		f.Button.Set(true, ByHandler)
		settled := make(chan struct{})
		go func() {
			f.button.settle(t.Context())
			close(settled)
		}()

		time.Sleep(Timeout / 2)
		if !f.button.pressKept() {
			t.Error("the disk does not have the press")
		}
		<-settled
	})
}
