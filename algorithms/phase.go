package algorithms

import (
	"fmt"
	"hash/crc32"
)

// Phase is where aligned windows begin.
type Phase uint8

// The phases. With PhaseFirst a key has windows of its own: they follow each other from the first charge that counts and
// finds none within two. With PhaseHash they are those of the epoch, moved on by PhaseOf.
const (
	PhaseEpoch Phase = iota // at the Unix epoch
	PhaseFirst
	PhaseHash
)

var phaseNames = [...]string{"epoch", "first", "hash"}

// String returns the phase as files write it: epoch, first or hash.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase %d", uint8(p))
}

// ParsePhase reads a phase as String writes it.
func ParsePhase(s string) (Phase, error) {
	for p, name := range phaseNames {
		if name == s {
			return Phase(p), nil
		}
	}
	return PhaseEpoch, fmt.Errorf("algorithms: phase %q: want epoch, first or hash", s)
}

// PhaseOf returns the microseconds by which PhaseHash moves a key's windows on: crc32(key) mod the window, in whole seconds if
// the window has whole seconds, else in whole milliseconds, else in microseconds.
func PhaseOf(key string, l Limit) int64 {
	l.hash = hashOf(key)
	return l.shift()
}

// shift is PhaseOf for a limit that knows the key's hash.
func (l *Limit) shift() int64 {
	unit := int64(1)
	switch window := l.micros(); {
	case window%1_000_000 == 0:
		unit = 1_000_000
	case window%1000 == 0:
		unit = 1000
	}
	return int64(l.hash) % (l.micros() / unit) * unit
}

// hashOf returns the hash of a key if the limit needs it, else 0.
func (l *Limit) hashOf(key string) uint32 {
	if l.Phase != PhaseHash {
		return 0
	}
	return hashOf(key)
}

// hashOf returns the CRC-32 of a key as of IEEE 802.3. The package crc32 would need the key as bytes.
func hashOf(key string) uint32 {
	sum := ^uint32(0)
	for i := range len(key) {
		sum = crc32.IEEETable[byte(sum)^key[i]] ^ sum>>8
	}
	return ^sum
}

// ownLayouts name the states of PhaseFirst, which have other numbers than those of their algorithms.
var ownLayouts = map[string]string{
	FixedWindow{}.Name():          FixedWindow{}.Name() + ":first",
	SlidingWindowCounter{}.Name(): SlidingWindowCounter{}.Name() + ":first",
}

// layout names what the numbers of a state mean: the algorithm, and PhaseFirst.
func layout(a Algorithm, l *Limit) string {
	name := a.Name()
	if l.Phase == PhaseFirst {
		if own, ok := ownLayouts[name]; ok {
			return own
		}
	}
	return name
}

// Layout names what the numbers of the side's state mean. A part of a record is found by it and by the side's name.
func (s *Side) Layout() string { return layout(s.Algorithm, &s.Limit) }

// wasUnused is Decision.WasUnused for the limit of the decision. With PhaseFirst a fixed window is empty, and still has
// its phase, in the window after one that counted: only a new phase ends two windows later.
func (l *Limit) wasUnused(a Algorithm, cost int64, d *Decision) bool {
	if l.Phase == PhaseFirst && cost > 0 && d.Allowed && TraitsOf(a).Shape == AlignedWindow {
		return d.WasUnused(cost) && d.ResetAfter == 2*l.Window
	}
	return d.WasUnused(cost)
}

// WasUnused reports whether the side was as if never used before its decision on a cost.
func (s *Side) WasUnused(cost int64, d *Decision) bool {
	return s.Limit.wasUnused(s.Algorithm, cost, d)
}

// anchor returns the instant at which the window of a counter's state with PhaseFirst began.
func (s State) anchor() int64 {
	if s.Log == nil {
		return 0
	}
	return s.Log.before
}

// anchored returns what holds the anchor in a state. It is not changed afterwards, so states may share it.
func (s State) anchored(at int64) *Log {
	if s.Log != nil && s.Log.before == at {
		return s.Log
	}
	return &Log{stretch: stretch{before: at}}
}
