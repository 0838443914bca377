package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// stageFile is what an instance keeps on its disk of the stages that it has applied. An
// instance that starts while Redis is away goes on in the fleet's stage: without the file it
// would enforce the authoritative beside instances that enforce the candidate.
type stageFile struct {
	Name   string                     `json:"name"`
	States map[string]promotion.State `json:"states"` // by policy, as stored in Redis
}

const stagesOnDisk = "stages" // kind of file

// readStages reads the states of the last run by policy. A file that cannot be used is as
// good as none: the instance then starts with the authoritative.
func (f *fleet) readStages() map[string]promotion.State {
	if f.disk == nil {
		return nil
	}
	var file stageFile
	found, err := f.disk.read(stagesOnDisk, &file)
	if err != nil {
		f.log.Warn("shadowlimit: the last stages on disk cannot be used; without Redis this instance enforces the authoritative",
			"error", err)
	}
	if !found {
		return nil
	}
	return file.States
}

// obeyDisk applies the stages of the last run where the store has not answered the first
// poll. It does not wait for a disk that hangs.
func (f *fleet) obeyDisk(ctx context.Context) {
	if f.disk == nil {
		return
	}
	states, answered := askWithin(ctx, fleetTimeout, f.lastStages)
	if !answered {
		f.log.Warn("shadowlimit: the disk with the last stages does not answer; this instance enforces the authoritative")
		return
	}

	f.polling.Lock()
	defer f.polling.Unlock()
	for _, m := range f.migrations() {
		if s := states[m.spec.Policy]; m.obeys(s) {
			m.apply(s)
			m.progress.stage.fromDisk = true
			f.log.Warn("shadowlimit: Redis does not answer; the stage of the last run holds until it does",
				"policy", m.spec.Policy, "stage", s.Describe(), "version", s.Version.String())
		}
	}
}

// obeys reports whether a state of the last run holds without a store. A canary does not: it
// is left where no rollback can reach it. A state of another epoch is about other sides, unless
// it remembers that this epoch was completed.
func (m *migration) obeys(s promotion.State) bool {
	unknown := m.progress.stage.state.Load().Version == promotion.Version{}
	holds := s.Stage == promotion.Promoted || s.Stage == promotion.Completed || s.Stage == promotion.RolledBack
	return unknown && (holds && s.Epoch == m.spec.Epoch || s.Epoch != m.spec.Epoch && s.EndedAs(m.spec.Epoch) == promotion.Completed)
}

// leaveDisk ends the time in which a state from the disk stands in for the stored one, which
// takes its place even where it is older: a file may be of a time before the policy began
// again. Two states stay, and are written again: a rollback, which a failover may have
// lost, and the state of a policy that the store has lost altogether.
func (m *migration) leaveDisk(stored promotion.State) {
	if !m.progress.stage.fromDisk {
		return
	}
	m.progress.stage.fromDisk = false
	if stored.Stage != "" && m.progress.stage.state.Load().Stage != promotion.RolledBack {
		m.replace(stored)
	}
}

// keeper is what keepLoop knows of the file.
type keeper struct {
	before  map[string]promotion.State // of the last run
	written []byte
	failing bool
}

// keepLoop writes the applied stages and the red button to the disk when they have changed, until ctx is over.
// A disk that hangs stops nothing else.
func (f *fleet) keepLoop(ctx context.Context) {
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
func (f *fleet) keepAll(k *keeper) {
	err := errors.Join(f.keepPress(), f.keepStages(k))
	if err != nil && !k.failing {
		f.log.Warn("shadowlimit: the stages cannot be kept on disk, for a start without Redis; see Config.StateDir", "error", err)
	}
	k.failing = err != nil
}

func (f *fleet) keepStages(k *keeper) error {
	text := f.stagesText(k.before)
	if bytes.Equal(text, k.written) {
		return nil
	}
	if err := f.disk.write(stagesOnDisk, text); err != nil {
		return err
	}
	k.written = text
	return nil
}

// stagesText is the file with the applied states. Of a policy of which this run knows none
// it keeps the state before.
func (f *fleet) stagesText(before map[string]promotion.State) []byte {
	states := map[string]promotion.State{}
	for _, m := range f.migrations() {
		s := *m.progress.stage.state.Load()
		if s.Epoch == "" {
			s = before[m.spec.Policy]
		}
		if s.Epoch != "" {
			states[m.spec.Policy] = s
		}
	}
	return f.fileOf(states)
}

func (f *fleet) fileOf(states map[string]promotion.State) []byte {
	text, _ := json.Marshal(stageFile{Name: f.name, States: states}) // texts and numbers
	return text
}

// noteApplied lets keepLoop look for changes.
func (f *fleet) noteApplied() {
	select {
	case f.applied <- struct{}{}:
	default: // it is about to look
	}
}
