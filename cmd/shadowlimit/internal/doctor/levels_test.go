package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// A person who asks the doctor hears why an adaptive limit does nothing, and why it holds in part.
func TestLevelsAreExamined(t *testing.T) {
	now, rule := time.Unix(1_800_000_000, 0), adaptive.Usual(adaptive.LatencyP99)
	known := func(s adaptive.State) map[string]adaptive.State { return map[string]adaptive.State{rule.Key(): s} }
	suffers := promotion.Instance{Service: &promotion.Service{Rules: []adaptive.Rule{rule}}}
	saturation := adaptive.Usual(adaptive.Saturation)
	tells := promotion.Instance{Service: &promotion.Service{Rules: []adaptive.Rule{saturation}}}

	for _, row := range []struct {
		name   string
		live   []promotion.Instance
		levels map[string]adaptive.State
		level  string
		want   string
	}{
		{"no adaptive limit", []promotion.Instance{{}}, nil, "", ""},
		{"well", []promotion.Instance{suffers, suffers}, known(adaptive.State{Seen: now}), fine, "the whole limit holds"},
		{"unwell", []promotion.Instance{suffers}, known(adaptive.State{Seen: now, Less: 32}), warning, "50 % of the limit holds"},
		{"no signal", []promotion.Instance{suffers}, known(adaptive.State{}), warning, "gives no signal"},
		{"a signal of the past", []promotion.Instance{suffers},
			known(adaptive.State{Seen: now.Add(-time.Hour)}), warning, "gives no signal"},
		{"no saturation", []promotion.Instance{tells}, map[string]adaptive.State{saturation.Key(): {}}, warning, "adaptive by saturation"},
		{"no count", []promotion.Instance{suffers}, nil, warning, "no level was published recently"},
		{"two files", []promotion.Instance{suffers, {}}, known(adaptive.State{Seen: now}), warning, "1 live instance without"},
	} {
		list := levelsOf(row.live, row.levels, now)
		if row.want == "" {
			if len(list) > 0 {
				t.Errorf("%s: %+v, want none", row.name, list)
			}
			continue
		}
		if len(list) == 0 || list[0].Level != row.level || !strings.Contains(list[0].Message, row.want) ||
			row.level == warning && list[0].Fix == "" {

			t.Errorf("%s: %+v, want a finding %s: %s", row.name, list, row.level, row.want)
		}
	}
}

// Each signal has a way to be given.
func TestSignalsHaveFixes(t *testing.T) {
	for i := range adaptive.SignalNames {
		if fixes[adaptive.Signal(i)] == "" {
			t.Errorf("%s has no fix", adaptive.Signal(i))
		}
	}
}
