package fleet

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// An instance that has started without its store by the stage on its disk goes by the store
// once that answers, and restores what the store has lost.
func TestStageOfTheDiskIsSettled(t *testing.T) {
	at := func(term, seq int64, stage stages.Stage) stages.State {
		return stages.State{
			Version: stages.Version{Term: term, Seq: seq}, Stage: stage, Fingerprint: "e", Hold: stage == stages.RolledBack,
		}
	}
	for _, tt := range []struct {
		name               string
		disk, stored, want stages.State
	}{
		{"the same", at(1, 2, stages.Promoted), at(1, 2, stages.Promoted), at(1, 2, stages.Promoted)},
		{"newer", at(1, 2, stages.Promoted), at(2, 1, stages.RolledBack), at(2, 1, stages.RolledBack)},
		{"begun again", at(3, 2, stages.Promoted), at(1, 1, stages.Shadow), at(3, 2, stages.Promoted)},
		{"lost", at(1, 2, stages.Promoted), stages.State{}, at(1, 2, stages.Promoted)},
		{"a rollback that was lost", at(2, 1, stages.RolledBack), at(1, 2, stages.Promoted), at(2, 1, stages.RolledBack)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				store := &cuttable{Store: stages.NewMemoryStore()}
				run := func() (*Fleet, *Policy) {
					f, p := idleOn(store, "a")
					f.Disk = &Disk{dir: dir, name: "test"}
					f.Start(context.Background())
					return f, p
				}
				put := func(s stages.State) {
					if err := store.Put(ctx, "p", s, stages.Condition{}); err != nil {
						t.Fatal(err)
					}
				}

				put(tt.disk)
				f, _ := run()
				f.Close(ctx)

				store.Store = stages.NewMemoryStore()
				store.cut.Store(true)
				f, p := run()
				defer f.Close(ctx)
				if got := *p.Stage.State(); got.String() != tt.disk.String() {
					t.Fatalf("without the store: %s, want %s", got, tt.disk)
				}

				if tt.stored.Stage != "" {
					put(tt.stored)
				}
				store.cut.Store(false)
				time.Sleep(3 * time.Second)
				states, err := store.States(ctx, []string{"p"})
				if got := *p.Stage.State(); err != nil || got.String() != tt.want.String() || states[0].String() != tt.want.String() {
					t.Errorf("with the store: %s, stored %s, %v, want %s", got, states[0], err, tt.want)
				}
			})
		})
	}
}

// Without its store an instance goes by the disk: a canary does not, nor does one whose fingerprint is another, unless it was
// completed.
func TestStagesOfTheDiskThatAreObeyed(t *testing.T) {
	state := func(stage stages.Stage, fingerprint string, past stages.Stage) stages.State {
		return stages.State{
			Version: stages.Version{Term: 1, Seq: 2}, Stage: stage, Percent: 100, Fingerprint: fingerprint,
			Past: []stages.Past{{Fingerprint: "e", Stage: past}},
		}
	}
	for _, tt := range []struct {
		name string
		disk stages.State
		want algorithms.Role
	}{
		{"promoted", state(stages.Promoted, "e", ""), algorithms.Candidate},
		{"completed", state(stages.Completed, "e", ""), algorithms.Candidate},
		{"a canary", state(stages.Canary, "e", ""), algorithms.Authoritative},
		{"another fingerprint", state(stages.Promoted, "f", ""), algorithms.Authoritative},
		{"another one, this one completed", state(stages.Shadow, "f", stages.Completed), algorithms.Candidate},
		{"another one, this one rolled back", state(stages.Promoted, "f", stages.RolledBack), algorithms.Authoritative},
	} {
		f, p := idleOn(stages.NewMemoryStore(), "a")
		f.poller.fromDisk <- map[string]stages.State{"p": tt.disk}
		if f.poller.takeFromDisk(); p.enforced(at(0)) != tt.want {
			t.Errorf("%s: the %s is enforced, want the %s", tt.name, p.enforced(at(0)), tt.want)
		}
	}
}

// A policy of which this run knows no state yet keeps the one of the last run on the disk.
func TestStagesOfTheLastRunStayOnTheDisk(t *testing.T) {
	last := stages.State{Version: stages.Version{Term: 1, Seq: 2}, Stage: stages.Promoted, Fingerprint: "e"}
	f, p := pressable(stages.NewMemoryStore(), t.TempDir())
	kept := func() stages.State {
		f.keeper.before, f.keeper.written = map[string]stages.State{"p": last}, nil
		must(t, f.keeper.keepStages())
		return f.keeper.readStages()["p"]
	}

	if got := kept(); !got.Equal(last) {
		t.Errorf("while no state is known: %s, want %s", got, last)
	}
	next := last
	next.Seq++
	if p.apply(next); !kept().Equal(next) {
		t.Errorf("with a newer state: %s, want %s", kept(), next)
	}
}

// Instances with names of their own have files of their own in one directory.
func TestInstancesHaveTheirOwnFiles(t *testing.T) {
	paths := map[string]bool{}
	for _, instance := range []string{"", "a", "b", "../a", "a/b"} {
		d, err := NewDisk("dir", "service", instance)
		must(t, err)
		path := d.path(stagesOnDisk)
		if paths[path] || filepath.Dir(path) != "dir" {
			t.Errorf("instance %q has the file %s", instance, path)
		}
		paths[path] = true
	}
}

// A file that is too large is not read, and a file that cannot take its place leaves
// nothing behind.
func TestDiskIsBoundedAndLeavesNoRest(t *testing.T) {
	d := &Disk{dir: t.TempDir(), name: "test"}
	must(t, os.WriteFile(d.path(stagesOnDisk), make([]byte, mostOnDisk+1), 0o600))
	var file stageFile
	if _, err := d.read(stagesOnDisk, &file); err == nil || !strings.Contains(err.Error(), "bytes, at most") {
		t.Errorf("a large file is read with %v, want an error about its size", err)
	}

	// A directory stands where the file should be, so that it cannot be replaced.
	must(t, os.MkdirAll(filepath.Join(d.path(pressOnDisk), "in the way"), 0o700))
	if err := d.write(pressOnDisk, []byte("{}")); err == nil {
		t.Error("a directory is replaced by a file")
	}
	if rests, _ := filepath.Glob(filepath.Join(d.dir, "*.tmp")); len(rests) > 0 {
		t.Errorf("a write that failed has left %v", rests)
	}
}
