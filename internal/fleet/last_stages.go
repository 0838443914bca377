package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// stageFile is what an instance keeps on its disk of the stages that it has applied. An
// instance that starts while Redis is away goes on in the fleet's stage: without the file it
// would enforce the authoritative beside instances that enforce the candidate.
type stageFile struct {
	Name string `json:"name"`
	// Redis is where the states are stored. The stages of a service in another one, such as that of its tests, say nothing of
	// this service, and would be stored as newer ones.
	Redis  string                  `json:"redis"`
	States map[string]stages.State `json:"states"` // by policy, as stored in Redis
}

const stagesOnDisk = "stages" // kind of file

// readStages reads the states of the last run by policy. A file that cannot be used is as
// good as none: the instance then starts with the authoritative.
func (f *Fleet) readStages() map[string]stages.State {
	if f.Disk == nil {
		return nil
	}
	var file stageFile
	found, err := f.Disk.read(stagesOnDisk, &file)
	if err != nil {
		f.Log.Warn("shadowlimit: the last stages on disk cannot be used; without Redis this instance enforces the authoritative",
			"error", err)
	}
	if !found {
		return nil
	}
	if file.Redis != f.Redis {
		written := cmp.Or(file.Redis, "no Redis")
		f.Log.Warn("shadowlimit: the last stages on disk are of another Redis, and are not obeyed; "+
			"services on one machine that share a name need a StateDir each", "written_with", written, "redis", f.Redis)
		return nil
	}
	return file.States
}

// diskPatience is how long the first heartbeat waits for the stages of the last run.
const diskPatience = 500 * time.Millisecond

// askDisk reads the stages of the last run. A disk that hangs is not waited for: they are applied when they come.
func (f *Fleet) askDisk(ctx context.Context) {
	if f.Disk == nil {
		return
	}
	read := func() { f.fromDisk <- f.lastStages() }
	if !clock.Within(ctx, diskPatience, read) {
		f.Log.Warn("shadowlimit: the disk with the last stages does not answer; without Redis this instance enforces the authoritative")
	}
}

// takeFromDisk applies the stages of the last run. They count like those that this run has heard: what the store has
// forgotten is written again. A canary is not enforced before the store was heard. Requires polling.
func (f *Fleet) takeFromDisk() {
	select {
	case states := <-f.fromDisk:
		for _, p := range f.compared() {
			p.apply(states[p.Spec.Policy])
		}
		f.changes = 0 // what the store has of these policies is read once more
	default:
	}
}

// keeper is what keepLoop knows of the file.
type keeper struct {
	before       map[string]stages.State // as on disk
	written      []byte
	SilentStores bool
}

// keepLoop writes the applied stages and the red button to the disk when they have changed, until ctx is over.
// A disk that hangs stops nothing else.
func (f *Fleet) keepLoop(ctx context.Context) {
	k := keeper{before: f.lastStages()}
	k.written = f.fileOf(k.before)
	for {
		select {
		case <-ctx.Done():
			f.keepAll(&k) // the move of the last second
			return
		case <-f.applied:
			f.keepAll(&k)
		}
	}
}

// keepAll writes the files that have changed. It warns of the first failure in a row.
func (f *Fleet) keepAll(k *keeper) {
	err := errors.Join(f.keepPress(), f.keepStages(k))
	if err != nil && !k.SilentStores {
		f.Log.Warn("shadowlimit: the stages cannot be kept on disk, for a start without Redis; see Config.StateDir", "error", err)
	}
	k.SilentStores = err != nil
}

func (f *Fleet) keepStages(k *keeper) error {
	states := f.statesToKeep(k.before)
	text := f.fileOf(states)
	if bytes.Equal(text, k.written) {
		return nil
	}
	if err := f.Disk.write(stagesOnDisk, text); err != nil {
		return err
	}
	k.before, k.written = states, text
	return nil
}

// statesToKeep are the applied states. Of a policy of which this instance knows none now it keeps the one
// that is on disk.
func (f *Fleet) statesToKeep(before map[string]stages.State) map[string]stages.State {
	states := map[string]stages.State{}
	for _, p := range f.compared() {
		s := *p.Stage.State()
		if s.Fingerprint == "" {
			s = before[p.Spec.Policy]
		}
		if s.Fingerprint != "" {
			states[p.Spec.Policy] = s
		}
	}
	return states
}

func (f *Fleet) fileOf(states map[string]stages.State) []byte {
	text, _ := json.Marshal(stageFile{Name: f.Name, Redis: f.Redis, States: states}) // texts and numbers
	return text
}

// noteApplied lets keepLoop look for changes.
func (f *Fleet) noteApplied() {
	select {
	case f.applied <- struct{}{}:
	default: // it is about to look
	}
}
