package fleet

import (
	"log/slog"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

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

// report returns what a heartbeat says of the service by the rules in use, nil where no limit is adaptive. Requires polling.
func (s *service) report(rules []adaptive.Rule, signal func() float64, log *slog.Logger) *stages.Service {
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
