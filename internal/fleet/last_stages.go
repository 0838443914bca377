package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"

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

// keeper keeps the applied stages on disk. But for lastStages and applied, keepLoop alone uses it.
type keeper struct {
	*common
	button *redButton
	// lastStages are those of the run before, by policy; they are read once.
	lastStages func() map[string]stages.State
	applied    chan struct{}           // has one place; a value lets keepLoop look at the stages
	before     map[string]stages.State // as on disk
	written    []byte
	failing    bool
}

// readStages reads the states of the last run by policy. A file that cannot be used is as
// good as none: the instance then starts with the authoritative.
func (k *keeper) readStages() map[string]stages.State {
	if k.Disk == nil {
		return nil
	}
	var file stageFile
	found, err := k.Disk.read(stagesOnDisk, &file)
	if err != nil {
		k.Log.Warn("shadowlimit: the last stages on disk cannot be used; without Redis this instance enforces the authoritative",
			"error", err)
	}
	if !found {
		return nil
	}
	if file.Redis != k.Redis {
		written := cmp.Or(file.Redis, "no Redis")
		k.Log.Warn("shadowlimit: the last stages on disk are of another Redis, and are not obeyed; "+
			"services on one machine that share a name need a StateDir each", "written_with", written, "redis", k.Redis)
		return nil
	}
	return file.States
}

// keepLoop writes the applied stages and the red button to the disk when they have changed, until ctx is over.
// A disk that hangs stops nothing else.
func (k *keeper) keepLoop(ctx context.Context) {
	k.before = k.lastStages()
	k.written = k.fileOf(k.before)
	for {
		select {
		case <-ctx.Done():
			k.keepAll() // the move of the last second
			return
		case <-k.applied:
			k.keepAll()
		}
	}
}

// keepAll writes the files that have changed. It warns of the first failure in a row.
func (k *keeper) keepAll() {
	err := errors.Join(k.button.keepPress(), k.keepStages())
	if err != nil && !k.failing {
		k.Log.Warn("shadowlimit: the stages cannot be kept on disk, for a start without Redis; see Config.StateDir", "error", err)
	}
	k.failing = err != nil
}

func (k *keeper) keepStages() error {
	states := k.statesToKeep()
	text := k.fileOf(states)
	if bytes.Equal(text, k.written) {
		return nil
	}
	if err := k.Disk.write(stagesOnDisk, text); err != nil {
		return err
	}
	k.before, k.written = states, text
	return nil
}

// statesToKeep are the applied states. Of a policy of which this instance knows none now it keeps the one
// that is on disk.
func (k *keeper) statesToKeep() map[string]stages.State {
	states := map[string]stages.State{}
	for _, p := range k.compared() {
		s := *p.Stage.State()
		if s.Fingerprint == "" {
			s = k.before[p.Spec.Policy]
		}
		if s.Fingerprint != "" {
			states[p.Spec.Policy] = s
		}
	}
	return states
}

func (k *keeper) fileOf(states map[string]stages.State) []byte {
	text, _ := json.Marshal(stageFile{Name: k.Name, Redis: k.Redis, States: states}) // texts and numbers
	return text
}

// noteApplied lets keepLoop look for changes.
func (k *keeper) noteApplied() {
	select {
	case k.applied <- struct{}{}:
	default: // it is about to look
	}
}
