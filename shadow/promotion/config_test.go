package promotion

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// announced are announcements as instances of earlier releases wrote them.
var announced = []struct {
	text string
	spec Spec
}{
	{
		`{"policy":"p","epoch":"","authoritative":"","candidate":"","config":{"automatic":false,"rule":"evidence",` +
			`"divergence":0.02,"newly_denied":0.02,"newly_allowed":0.5,"extra_load":0.1,"block_ns":3600000000000,` +
			`"soak_ns":172800000000000,"graded":true,"on_regression":"rollback",` +
			`"dwell_ns":3600000000000,"min_denials":200,"min_denied_keys":20,"canary":[1,10,50],"change_window":` +
			`{"days":[1,2,3,4,5],"from_ns":32400000000000,"to_ns":57600000000000,"zone":"UTC"}}}`,
		Spec{Policy: "p", Config: Config{}.WithDefaults()},
	},
	{
		`{"policy":"writes","epoch":"e1","authoritative":"fixed_window 10/1m","candidate":"gcra 10/1m","config":` +
			`{"automatic":true,"rule":"simple","divergence":0.01,"newly_denied":0.001,"newly_allowed":0.25,` +
			`"extra_load":0.2,"on_regression":"hold",` +
			`"block_ns":1800000000000,"soak_ns":86400000000000,"dwell_ns":7200000000000,"min_denials":100,` +
			`"min_denied_keys":10,"canary":[5,25],"sample":0.1,"change_window":` +
			`{"days":[2,3],"from_ns":28800000000000,"to_ns":43200000000000,"zone":"Europe/Berlin"}}}`,
		Spec{
			Policy: "writes", Epoch: "e1", Authoritative: "fixed_window 10/1m", Candidate: "gcra 10/1m",
			Config: Config{
				Automatic: true,
				Config: gate.Config{
					Rule: gate.Simple, Divergence: 0.01, NewlyDenied: 0.001, NewlyAllowed: 0.25,
					ExtraLoad: 0.2, Harms: gate.Harms{OnRegression: gate.ByHold},
					Block: 30 * time.Minute, Soak: 24 * time.Hour, MinDenials: 100, MinDeniedKeys: 10, Sample: 0.1,
				},
				Dwell: 2 * time.Hour, Canary: []float64{5, 25},
				Change: ChangeWindow{
					Days: []time.Weekday{time.Tuesday, time.Wednesday},
					From: 8 * time.Hour, To: 12 * time.Hour, Zone: "Europe/Berlin",
				},
			},
		},
	},
}

// Instances of several releases run side by side during a deployment: each must read
// what the others announce.
func TestAnnouncementsKeepTheirJSON(t *testing.T) {
	for _, tt := range announced {
		var read Spec
		if err := json.Unmarshal([]byte(tt.text), &read); err != nil || !reflect.DeepEqual(read, tt.spec) {
			t.Errorf("read %+v, %v, want %+v", read, err, tt.spec)
		}

		text, err := json.Marshal(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := decoded(t, string(text)), decoded(t, tt.text); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nwrites %s\nwant   %s\ngive a new field omitempty: earlier releases announce without it", tt.spec.Policy, text, tt.text)
		}
	}
}

// What an earlier release announces has no fields that were added since. They have their
// defaults, and its soak is one that was declared.
func TestEarlierAnnouncementsHaveDefaults(t *testing.T) {
	const text = `{"policy":"p","config":{"rule":"evidence","divergence":0.02,"newly_denied":0.02,"newly_allowed":0.5,` +
		`"block_ns":3600000000000,"soak_ns":172800000000000,"min_denials":200,"min_denied_keys":20}}`
	var read Spec
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		t.Fatal(err)
	}

	want := Config{Config: gate.Config{Soak: 48 * time.Hour}}.WithDefaults()
	if got := read.Config.WithDefaults(); !reflect.DeepEqual(got, want) || got.SoakFor(100) != 48*time.Hour {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// decoded is JSON without the order of its fields, which means nothing.
func decoded(t *testing.T, text string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestConfigsThatAreRefused(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"a threshold of 1":           func(c *Config) { c.Divergence = 1 },
		"a sample above 1":           func(c *Config) { c.Sample = 1.5 },
		"an unknown rule":            func(c *Config) { c.Rule = "hope" },
		"a block of half a minute":   func(c *Config) { c.Block = 30 * time.Second },
		"a soak below 0":             func(c *Config) { c.Soak = -time.Hour },
		"a soak over ten days":       func(c *Config) { c.Soak = 10*24*time.Hour + time.Minute },
		"a dwell below 0":            func(c *Config) { c.Dwell = -time.Hour },
		"a canary above 100 percent": func(c *Config) { c.Canary = []float64{101} },
		"a canary that shrinks":      func(c *Config) { c.Canary = []float64{10, 1} },
		"a canary step twice":        func(c *Config) { c.Canary = []float64{10, 10, 50} },
		"a zone that does not exist": func(c *Config) { c.Change.Zone = "Atlantis" },
	} {
		cfg := Config{}.WithDefaults()
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}

		if edit(&cfg); cfg.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
