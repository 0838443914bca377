package stages

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
)

// served returns an instance that reports some requests of one duration.
func served(n int, d time.Duration, rules ...adaptive.Rule) Instance {
	var c adaptive.Counter
	for range n {
		c.Add(d, false)
	}
	return Instance{Service: &Service{Rules: rules, Served: c.Read()}}
}

// The level of a fleet is of all requests: an idle instance that is slow does not decide it, and a busy one does.
func TestLevelsAreOfAllRequests(t *testing.T) {
	rule, now := adaptive.Usual(adaptive.LatencyP99), time.Now()
	for _, row := range []struct {
		slow int // requests of the slow instance; the others have 1,900
		want adaptive.Level
	}{{10, 64}, {100, 16}} {
		live := []Instance{served(row.slow, 3*time.Second, rule), {}}
		for range 19 {
			live = append(live, served(100, 10*time.Millisecond, rule))
		}

		levels := levelsOf(nil, live, now)
		s := levels[rule.Key()]
		if len(levels) != 1 || s.Level() != row.want {
			t.Errorf("%d slow requests: %v, want %d", row.slow, levels, row.want)
		}
	}
}

// A service without adaptive limits publishes nothing of them. Rules of other processes are bounded, and followed if they
// make sense.
func TestLevelsAreBounded(t *testing.T) {
	if levels := levelsOf(nil, []Instance{{}, {Service: &Service{}}}, time.Now()); levels != nil {
		t.Errorf("%v, want none", levels)
	}

	var live []Instance
	for n := range 100 {
		rule := adaptive.Rule{Steps: []adaptive.Step{{Above: int64(n + 1), Level: 16}}, Every: time.Minute}
		live = append(live, served(1, time.Second, rule, adaptive.Rule{Every: time.Minute}))
	}
	if n := len(levelsOf(nil, live, time.Now())); n != mostLevels {
		t.Errorf("%d levels, want %d", n, mostLevels)
	}
}

// A report is the same after it was stored, and one that another program has written harms nothing.
func TestServiceIsStored(t *testing.T) {
	ratio := 0.25
	i := served(1000, 40*time.Millisecond, adaptive.Usual(adaptive.Saturation))
	i.Service.Saturation = &ratio
	text, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}

	var read Instance
	if err := json.Unmarshal(text, &read); err != nil || fmt.Sprint(read.Service.Served, read.Service.Rules) !=
		fmt.Sprint(i.Service.Served, i.Service.Rules) || *read.Service.Saturation != ratio {
		t.Errorf("%s became %+v: %v", text, read.Service, err)
	}

	var hostile Instance
	if err := json.Unmarshal([]byte(`{"service":{"rules":[{"Signal":200}],"served":{"failed":-5,"durations":[-1,7,500,9,3,-4,4,
		9000000000000000000,4]}}}`), &hostile); err != nil {
		t.Fatal(err)
	}
	if n := hostile.Service.Served.Requests(); n != 1<<40 || hostile.Service.Served.Failed != 0 {
		t.Errorf("%d requests", n)
	}
	if levels := levelsOf(nil, []Instance{hostile}, time.Now()); levels != nil {
		t.Errorf("a rule of an unknown signal has a level: %v", levels)
	}
}
