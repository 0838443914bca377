package shadow

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
)

// adaptation is how much of an adaptive side's limit holds in this instance. The fleet writes it, and requests read the level.
type adaptation struct {
	configured *policies.Side
	key        string // of its rule
	*heldLevel        // the two sides of a policy share it if they have one rule
}

// heldLevel is a level that holds.
type heldLevel struct {
	less  atomic.Int32               // the part of the whole limit that is missing, in 64ths
	heard atomic.Pointer[heardLevel] // nil before the first
}

// heardLevel is the last published level, and when it was heard of by this process's clock.
type heardLevel struct {
	level adaptive.Level
	at    time.Time
}

// adaptationOf returns nil for a side whose limit is always the whole.
func adaptationOf(s *policies.Side) *adaptation {
	if s.Adaptive() == nil {
		return nil
	}
	return &adaptation{configured: s, key: s.Adaptive().Key(), heldLevel: new(heldLevel)}
}

// shareLevel has sides with one rule hold one level: equal sides must not differ because their levels change one after the other.
func (m *migration) shareLevel() {
	if a, b := m.sides[0].adaptation, m.sides[1].adaptation; a != nil && b != nil && a.key == b.key {
		b.heldLevel = a.heldLevel
	}
}

// resume takes over the level from before a reload: a service that suffers must not get the whole load again for a new file. A side may
// have changed its role.
func (a *adaptation) resume(before *[2]side) {
	for role := range before {
		if b := before[role].adaptation; a != nil && b != nil && a.key == b.key {
			a.less.Store(b.less.Load())
			a.heard.Store(b.heard.Load())
		}
	}
}

// level returns the level that holds.
func (h *heldLevel) level() adaptive.Level { return adaptive.Full - adaptive.Level(h.less.Load()) }

// applyLevels gives adaptive sides their limits. A level is read once for both sides. A side keeps what it has counted, as for every limit
// that changes.
func (m *migration) applyLevels(c *algorithms.Check) {
	var read *heldLevel
	var less int32
	for role := range m.sides {
		a := m.sides[role].adaptation
		if a == nil {
			continue
		}
		if a.heldLevel != read {
			read, less = a.heldLevel, a.less.Load()
		}
		if less > 0 {
			c.Sides[role].Limit = a.configured.AtLevel(adaptive.Full - adaptive.Level(less))
		}
	}
}

// follow takes over the published level, if there is one, and lets the level come back where nothing is heard. It reports whether
// the level has changed.
func (a *adaptation) follow(published map[string]adaptive.State) bool {
	if s, there := published[a.key]; there {
		a.heard.Store(&heardLevel{s.Level(), time.Now()})
	}
	heard := a.heard.Load()
	if heard == nil {
		return false
	}

	// Redis may hold any level.
	level := max(adaptive.Held(heard.level, time.Since(heard.at)), a.configured.Adaptive().Least())
	return a.less.Swap(int32(adaptive.Full-level)) != int32(adaptive.Full-level)
}

// followLevels has every adaptive side follow; see adaptation.follow. Without an answer of the store nothing is published.
func (f *fleet) followLevels(published map[string]adaptive.State) {
	for _, m := range f.plan.Load().migrations {
		for role := range m.sides {
			// Of two sides that share a level the first one follows for both.
			a := m.sides[role].adaptation
			if a != nil && a.follow(published) {
				f.log.Info("shadowlimit: another part of an adaptive limit holds", "policy", m.spec.Policy,
					"side", m.sideNames(role), "level", int(a.level()), "of", int(adaptive.Full))
			}
		}
	}
}

// sideNames returns the side of a level, or both where they share it.
func (m *migration) sideNames(role int) string {
	if a, b := m.sides[0].adaptation, m.sides[1].adaptation; a != nil && b != nil && a.heldLevel == b.heldLevel {
		return "both"
	}
	return algorithms.Role(role).String()
}

// levelsHere says how much of the adaptive limits of a policy holds in this instance; "" if none is adaptive.
func (m *migration) levelsHere() string {
	var texts []string
	for role := range m.sides {
		if a := m.sides[role].adaptation; a != nil {
			texts = append(texts, status.LevelHere(algorithms.Role(role).String(), float64(a.level())/float64(adaptive.Full)))
		}
	}
	return strings.Join(texts, ", ")
}

// service is what this instance knows of how the service does.
type service struct {
	counter  adaptive.Counter
	readings []servedUntil // oldest first; guarded by polling
	// asked is a call of the service's signal that has not answered in time; nil without one. Guarded by polling.
	asked <-chan *float64
}

// servedUntil is what the counter was at an instant.
type servedUntil struct {
	at time.Time
	adaptive.Sketch
}

const (
	// sketchOf is the time that a reported sketch is of.
	sketchOf = 10 * time.Second
	// mostReadings bounds the readings that are kept: heartbeats are a second apart.
	mostReadings = 16
	// signalWithin is how long a heartbeat waits for the service's signal.
	signalWithin = 100 * time.Millisecond
)

// report returns what a heartbeat says of the service, nil where no limit is adaptive. Requires polling.
func (s *service) report(p *plan, signal func() float64, log *slog.Logger) *stages.Service {
	rules := rulesIn(p)
	if len(rules) == 0 {
		s.readings = nil
		return nil
	}

	// The oldest reading that is needed is the last one from before the time of the sketch.
	now := servedUntil{time.Now(), s.counter.Read()}
	s.readings = append(s.readings, now)
	for len(s.readings) > mostReadings || len(s.readings) > 2 && now.at.Sub(s.readings[1].at) >= sketchOf {
		s.readings = s.readings[1:]
	}
	return &stages.Service{
		Rules: rules, Served: now.Since(&s.readings[0].Sketch), Saturation: s.saturation(signal, log),
	}
}

// saturation asks the service, where it has a signal of its own, in a goroutine of its own: a signal that hangs must not keep
// stages from being read. It is asked again when it has answered.
func (s *service) saturation(signal func() float64, log *slog.Logger) *float64 {
	if signal == nil {
		return nil
	}
	late := s.asked != nil
	if !late {
		answer := make(chan *float64, 1)
		go func() { answer <- saturationOf(signal) }()
		s.asked = answer
	}
	timer := time.NewTimer(signalWithin)
	defer timer.Stop()
	select {
	case v := <-s.asked:
		s.asked = nil
		return v
	case <-timer.C:
	}
	if !late {
		log.Warn("shadowlimit: Config.Signal does not return, so limits that are adaptive by saturation stay as they are", "within", signalWithin)
	}
	return nil
}

// saturationOf calls the service's signal. A panic is no signal.
func saturationOf(signal func() float64) (ratio *float64) {
	defer func() {
		if recover() != nil {
			ratio = nil
		}
	}()

	// JSON has no number for infinity, nor for a NaN.
	v := signal()
	if !(v >= 0 && v <= 1) {
		return nil
	}
	return &v
}

// rulesIn returns the rules of a plan, each once.
func rulesIn(p *plan) (rules []adaptive.Rule) {
	known := map[string]bool{}
	for _, m := range p.migrations {
		rules = appendRules(rules, known, &m.sides)
	}
	return rules
}

// appendRules appends the rules of two sides that are not known yet.
func appendRules(rules []adaptive.Rule, known map[string]bool, sides *[2]side) []adaptive.Rule {
	for role := range sides {
		if a := sides[role].adaptation; a != nil && !known[a.key] {
			known[a.key] = true
			rules = append(rules, *a.configured.Adaptive())
		}
	}
	return rules
}

// checkRules refuses a file whose rules would not reach the fleet, or of which one has no signal.
func (h *Harness) checkRules(drafts []draft) error {
	var rules []adaptive.Rule
	known := map[string]bool{}
	for i := range drafts {
		rules = appendRules(rules, known, &drafts[i].sides)
	}
	if len(rules) > stages.MostRules {
		return errors.New("more than 8 different adaptive rules: give sides the same one")
	}
	for _, r := range rules {
		if r.Signal == adaptive.Saturation && h.cfg.Signal == nil {
			return errors.New("adaptive by saturation: put the service's signal into Config.Signal")
		}
	}
	return nil
}

// Served tells the harness that a request was served: how long its handler took, and whether it failed. Adaptive limits go by
// it; without one it has no effect. httplimit calls it by itself. It may be called concurrently, allocates nothing and takes no
// lock.
func (h *Harness) Served(d time.Duration, failed bool) { h.fleet.service.counter.Add(d, failed) }
