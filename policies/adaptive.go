package policies

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
)

// adaptation is how a side's limit follows the service, with its limit at each level: a check reads one of them.
type adaptation struct {
	rule   adaptive.Rule
	limits [adaptive.Full + 1]algorithms.Limit
}

// readAdaptive returns a reader of the field adaptive.
func readAdaptive(c *compiler, into **adaptation) func(*yaml.Node) {
	return func(n *yaml.Node) {
		before := c.errors()

		signal, every := "", 30*time.Second
		// The levels need the signal, which may stand behind them, so they are only kept here.
		var levels *yaml.Node
		c.mapping(n, "adaptive", map[string]field{
			"signal": {read: c.choice("adaptive: signal", &signal, adaptive.SignalNames...), required: true},
			"levels": {read: func(n *yaml.Node) { levels = n }},
			"every":  {read: c.duration("every", &every)},
		})
		if c.errors() > before {
			return
		}

		// Without levels the recipe of the signal holds.
		a := &adaptation{rule: adaptive.Usual(adaptive.Signal(slices.Index(adaptive.SignalNames, signal)))}
		a.rule.Every = every
		if levels != nil {
			a.rule.Steps = readSteps(c, levels, a.rule.Signal)
		}

		// A rule that is changed faster than its effect can be seen swings.
		if every < adaptive.LeastEvery || every > adaptive.MostEvery {
			c.fail(placesOf(n).orNone("every"), "adaptive: every: want 20s to 1h: a change is seen in the signal after up to 17 s")
		}
		if c.errors() == before {
			*into = a
		}
	}
}

// readLevel returns a reader of a part of a limit, in 64ths.
func readLevel(c *compiler, into *adaptive.Level) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// Rounded down: a level never leaves more than the file says.
		v, ok := percentage(n)
		level := adaptive.Level(v * float64(adaptive.Full) / 100)
		if !ok || level < 1 || level >= adaptive.Full {
			c.fail(n, "adaptive: limit: want a part of the limit from 2%% to 99%%, such as 50%%")
			return
		}
		*into = level
	}
}

// usualShare is a value of a signal that is a share: an example for messages, no default.
var usualShare = map[adaptive.Signal]string{adaptive.ErrorRate: "1%", adaptive.Saturation: "80%"}

func readThreshold(c *compiler, signal adaptive.Signal, into *int64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// A share is kept in millionths, a duration as the sketch has it.
		if signal != adaptive.LatencyP99 {
			v, ok := percentage(n)
			*into = int64(v * adaptive.Million / 100)
			if !ok || *into < 1 {
				c.fail(n, "adaptive: above: want a percentage from 0.0001%% on, such as %s", usualShare[signal])
			}
			return
		}

		// A sketch has no buckets beyond these bounds, so the rule would never act, or always.
		var d time.Duration
		c.duration("adaptive: above", &d)(n)
		if d > adaptive.Longest || d > 0 && d < adaptive.Shortest {
			c.fail(n, "adaptive: above: want 2ms to 2m: shorter and longer durations are not told apart")
		}
		*into = adaptive.Limit(d)
	}
}

// mostSteps bounds the steps of a rule, which travels with every heartbeat.
const mostSteps = 8

// readSteps reads the levels of a rule, such as [{ above: 500ms, limit: 50% }, { above: 1s, limit: 25% }].
func readSteps(c *compiler, n *yaml.Node, signal adaptive.Signal) (list []adaptive.Step) {
	for _, item := range c.items(n, "levels") {
		var step adaptive.Step
		before := c.errors()
		c.mapping(item, "a level", map[string]field{
			"above": {read: readThreshold(c, signal, &step.Above), required: true},
			"limit": {read: readLevel(c, &step.Level), required: true},
		})
		if c.errors() > before {
			return nil
		}

		// In any other order a worse signal could raise the limit.
		if last := len(list) - 1; last >= 0 && (step.Above <= list[last].Above || step.Level >= list[last].Level) {
			c.fail(item, "adaptive: levels: want each with a larger value and a smaller limit than the one before")
			return nil
		}
		list = append(list, step)
	}
	if len(list) == 0 || len(list) > mostSteps {
		c.fail(n, "adaptive: levels: want 1 to %d, such as [{ above: 500ms, limit: 50%% }]", mostSteps)
	}
	return list
}

// checkAdaptive refuses what cannot be adaptive, and makes the limit of each level.
func checkAdaptive(r *reader, n *yaml.Node, role string, s *Side) {
	if s.adaptive == nil {
		return
	}

	// A level is a part of a number that is known when the file is read.
	at := placesOf(n).orNone("adaptive")
	switch {
	case s.Custom():
		r.fail(at, "%s: adaptive is for our own algorithms: a custom limiter decides by its own limit", role)
		return
	case !s.constant():
		r.fail(at, "%s: adaptive is not available in this version for a limit that an expression gives", role)
		return
	}

	// Numbers of buckets are kept in lowest terms, so a smaller limit may have larger ones. Every level is tried here, and not
	// when the service suffers.
	whole, _ := s.Constant()
	for level := range adaptive.Full + 1 {
		limit := whole
		limit.Requests, limit.Burst = level.Of(whole.Requests), level.Of(whole.Burst)
		if err := s.Algorithm.Validate(limit); level > 0 && err != nil {
			r.fail(at, "%s: adaptive: at %d/64 of the limit: %s", role, level, withoutPackage(err))
			return
		}
		s.adaptive.limits[level] = limit
	}
}

// String writes the rule as people read it.
func (a *adaptation) String() string {
	r := &a.rule

	// In the unit of the file, so that the two can be compared.
	value := func(v int64) string {
		if r.Signal == adaptive.LatencyP99 {
			return (time.Duration(v) * time.Microsecond).String()
		}
		return fmt.Sprintf("%g%%", float64(v)*100/adaptive.Million)
	}

	var parts []string
	for _, step := range r.Steps {
		parts = append(parts, fmt.Sprintf("%d/64 above %s", step.Level, value(step.Above)))
	}
	return fmt.Sprintf("adaptive by %s: %s, every %s", r.Signal, strings.Join(parts, ", "), r.Every)
}
