package adaptive

import (
	"sync/atomic"
	"time"
)

// Holding is how much of a limit holds in an instance by one rule. The fleet's part of the instance
// writes it, and requests read it.
type Holding struct {
	rule  *Rule
	key   string
	less  atomic.Int32               // the part of the whole limit that is missing, in 64ths
	heard atomic.Pointer[heardLevel] // nil before the first
}

// heardLevel is the last published level, and when it was heard of by this process's clock.
type heardLevel struct {
	level Level
	at    time.Time
}

// NewHolding returns a holding of the whole limit.
func NewHolding(rule *Rule) *Holding { return &Holding{rule: rule, key: rule.Key()} }

// Rule returns the rule that the level follows.
func (h *Holding) Rule() *Rule { return h.rule }

// Key is the rule as a text.
func (h *Holding) Key() string { return h.key }

// Level returns the level that holds.
func (h *Holding) Level() Level { return Full - Level(h.less.Load()) }

// Copy takes over the level of another holding.
func (h *Holding) Copy(from *Holding) {
	h.less.Store(from.less.Load())
	h.heard.Store(from.heard.Load())
}

// Follow takes over the published level, if there is one, and lets the level come back where nothing is heard. It reports whether
// the level has changed. One goroutine at a time calls it.
func (h *Holding) Follow(published map[string]State) bool {
	if s, there := published[h.key]; there {
		h.heard.Store(&heardLevel{s.Level(), time.Now()})
	}
	heard := h.heard.Load()
	if heard == nil {
		return false
	}

	// Redis may hold any level.
	level := max(Held(heard.level, time.Since(heard.at)), h.rule.Least())
	return h.less.Swap(int32(Full-level)) != int32(Full-level)
}
