package policies

import (
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"
)

// Promotion is what the file says about promoting a policy. Zero values were
// not said: package promotion knows the defaults.
type Promotion struct {
	Mode, Rule                            string
	Divergence, NewlyDenied, NewlyAllowed float64 // fractions
	Block, Soak, Dwell                    time.Duration
	MinDenials, MinDeniedKeys             int64
	Canary                                []float64 // percent
	Sample                                float64   // fraction
	ChangeDays                            []time.Weekday
	ChangeFrom, ChangeTo                  time.Duration // since midnight
	ChangeZone                            *time.Location

	expected []*expectation
}

// promotion returns a reader that overrides what into has.
func (d *document) promotion(env *cel.Env, into *Promotion) func(*yaml.Node) {
	return func(n *yaml.Node) {
		d.mapping(n, "promotion", map[string]field{
			"mode":            {read: d.choice("mode", &into.Mode, "manual", "automatic")},
			"rule":            {read: d.rule(&into.Rule)},
			"divergence":      {read: d.fraction("divergence", &into.Divergence)},
			"newly_denied":    {read: d.fraction("newly_denied", &into.NewlyDenied)},
			"newly_allowed":   {read: d.fraction("newly_allowed", &into.NewlyAllowed)},
			"block":           {read: d.minutes("block", &into.Block)},
			"soak":            {read: d.soak(&into.Soak)},
			"dwell":           {read: d.minutes("dwell", &into.Dwell)},
			"min_denials":     {read: d.count("min_denials", &into.MinDenials, 1)},
			"min_denied_keys": {read: d.count("min_denied_keys", &into.MinDeniedKeys, 1)},
			"canary":          {read: d.steps(&into.Canary)},
			"sample":          {read: d.fraction("sample", &into.Sample)},
			"change_window":   {read: d.changeWindow(into)},
			"expected":        {read: d.expected(env, &into.expected)},
		})
	}
}

// rule reads which rule promotes, and warns of the one that gives no guarantee.
func (d *document) rule(into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if d.choice("rule", into, "evidence", "simple")(n); *into == "simple" {
			d.warn(n, "rule: simple gives no guarantee: in simulations it promoted nearly every candidate whose divergence was just at the threshold (docs/statistics.md); rule: evidence is for automatic promotion")
		}
	}
}

// maxSoak is what the evidence that is kept, 32 days, suffices for: strikes ask for
// up to three times the soak.
const maxSoak = 10 * 24 * time.Hour

func (d *document) soak(into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if d.minutes("soak", into)(n); *into > maxSoak {
			d.fail(n, "soak: want at most 10d, for evidence is kept for 32 days and strikes ask for three times the soak")
		}
	}
}

// minutes returns a reader of a duration of whole minutes, the ledger's unit.
func (d *document) minutes(what string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		before := len(d.List)
		if d.span(what, into)(n); len(d.List) == before && *into%time.Minute != 0 {
			d.fail(n, "%s: want whole minutes, for that is how finely evidence is kept", what)
		}
	}
}

// steps returns a reader of the canary's percentages.
func (d *document) steps(into *[]float64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil
		for _, item := range d.items(n, "canary") {
			v, ok := percentage(item)
			if !ok || len(*into) > 0 && v <= (*into)[len(*into)-1] {
				d.fail(item, "canary: want rising percentages, such as [1%%, 10%%, 50%%]")
				return
			}
			*into = append(*into, v)
		}
		if len(*into) == 0 && n.Kind == yaml.SequenceNode {
			d.fail(n, "canary: want at least one step, such as [10%%]")
		}
	}
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (d *document) changeWindow(into *Promotion) func(*yaml.Node) {
	return func(n *yaml.Node) {
		d.mapping(n, "change_window", map[string]field{
			"days": {read: d.days(&into.ChangeDays), required: true},
			"from": {read: d.timeOfDay("from", &into.ChangeFrom), required: true},
			"to":   {read: d.timeOfDay("to", &into.ChangeTo), required: true},
			"zone": {read: d.zone(&into.ChangeZone)},
		})
		if into.ChangeTo != 0 && into.ChangeTo <= into.ChangeFrom {
			d.fail(n, "change_window: \"to\" must be later in the day than \"from\"")
		}
	}
}

func (d *document) days(into *[]time.Weekday) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil
		for _, item := range d.items(n, "days") {
			i := slices.Index(weekdays, item.Value)
			if i < 0 {
				d.fail(item, "days: want some of %s", strings.Join(weekdays, ", "))
				return
			}
			*into = append(*into, time.Weekday(i))
		}
		if len(*into) == 0 && n.Kind == yaml.SequenceNode {
			d.fail(n, "days: want at least one of %s", strings.Join(weekdays, ", "))
		}
	}
}

func (d *document) timeOfDay(what string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Value == "24:00" {
			*into = 24 * time.Hour
			return
		}
		t, err := time.Parse("15:04", n.Value)
		if err != nil {
			d.fail(n, "%s: want a time of day between \"00:00\" and \"24:00\"", what)
			return
		}
		*into = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	}
}

func (d *document) zone(into **time.Location) func(*yaml.Node) {
	return func(n *yaml.Node) {
		zone, err := time.LoadLocation(n.Value)
		if err != nil {
			d.fail(n, "zone: no time zone %q: want a name such as UTC or Europe/Berlin", n.Value)
			return
		}
		*into = zone
	}
}
