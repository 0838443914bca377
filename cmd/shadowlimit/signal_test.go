package main

import (
	"fmt"
	"strings"
	"testing"
)

// giving is a policy file whose candidate gives way by a signal.
func giving(signal string) string {
	return fmt.Sprintf(`
version: 1
name: test
policies:
  - name: p
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 40, window: 1m }
    candidate: { algorithm: fixed_window, id: next, limit: 40, window: 1m, adaptive: { signal: %s } }
`, signal)
}

// servedLog has a request a second of one user for ten minutes. The service is unwell from the third minute to the fifth.
func servedLog() []byte {
	log := "t_s,user,took_ms,status,load,words\n"
	for second := range 600 {
		for range 2 {
			took, status, load := 10, 200, 0.1
			if second >= 120 && second < 300 {
				took, status, load = 700, 500+second%2*-300, 0.9
			}
			log += fmt.Sprintf("%d,ann,%d,%d,%g,well\n", 1_700_006_400+second, took, status, load)
		}
	}
	return []byte(log)
}

// The candidate has less of its limit while a field of the log says that the service suffered, and so it denies what the authoritative
// allows. The report says how long.
func TestReplayFollowsASignal(t *testing.T) {
	log := write(t, "log.csv", servedLog())
	for signal, field := range map[string]string{"latency_p99": "took_ms", "error_rate": "status", "saturation": "load"} {
		args := []string{"--config", write(t, "p.yaml", []byte(giving(signal))), log}
		whole := replayed(t, args...).Policies[0]
		if whole.NewlyDenied > 0 || whole.Levels != nil {
			t.Errorf("%s: without the field %d are newly denied, and the levels are %v", signal, whole.NewlyDenied, whole.Levels)
		}

		p := replayed(t, append(args, "--signal-field", field)...).Policies[0]
		if p.NewlyDenied == 0 || len(p.Levels) != 1 {
			t.Fatalf("%s: %d newly denied, levels %v", signal, p.NewlyDenied, p.Levels)
		}
		if l := p.Levels[0]; l.Side != "candidate" || l.Least > 0.5 || l.BelowSeconds < 150 || l.BelowSeconds > 400 || l.Changes < 2 {
			t.Errorf("%s: %+v", signal, l)
		}

		_, text, talk := shell(t, "", append(append([]string{"replay"}, args...), "--signal-field", field)...)
		if !strings.Contains(text, "candidate gave way") || strings.Contains(talk, "level 1") {
			t.Errorf("%s: %s\n%s", signal, text, talk)
		}
	}
}

// A number has the unit of the field's name or of the flag, and a text its own.
func TestSignalUnits(t *testing.T) {
	for _, row := range []struct {
		field, text string
		falls       bool
	}{
		{"took", "0.4", false}, {"took", "0.7", true}, {"took", "700ms", true}, {"took", "400ms", false},
		{"took_ms", "700", true}, {"took_ms", "400", false}, {"took:ms", "700", true}, {"took:us", "700", false},
		{"took", "1e300", true}, {"took", "0", false},
	} {
		name, _, _ := strings.Cut(row.field, ":")
		log := "t_s,user," + name + "\n"
		for second := range 120 {
			log += strings.Repeat(fmt.Sprintf("%d,ann,%s\n", 1_700_006_400+second, row.text), 3)
		}

		p := replayed(t, "--config", write(t, "p.yaml", []byte(giving("latency_p99"))), "--signal-field", row.field,
			write(t, "log.csv", []byte(log))).Policies[0]
		if fell := p.Levels[0].Changes > 0; fell != row.falls {
			t.Errorf("%s %s: the limit gives way: %t", row.field, row.text, fell)
		}
	}
}

func TestSignalsAreRefused(t *testing.T) {
	log := write(t, "log.csv", servedLog())
	file := write(t, "p.yaml", []byte(giving("latency_p99")))
	both := write(t, "both.yaml", []byte(strings.Replace(giving("latency_p99"), "window, limit: 40, window: 1m }",
		"window, limit: 40, window: 1m, adaptive: { signal: error_rate } }", 1)))
	none := write(t, "none.yaml", []byte(strings.Replace(giving("latency_p99"), ", adaptive: { signal: latency_p99 }", "", 1)))

	for want, args := range map[string][]string{
		"no field":                  {"--config", file, "--signal-field", "nothing"},
		`words: "well"`:             {"--config", file, "--signal-field", "words"},
		"want a field":              {"--config", file, "--signal-field", ":ms"},
		"has no effect":             {"--config", none, "--signal-field", "took_ms"},
		"the adaptive sides have 2": {"--config", both, "--signal-field", "took_ms"},
		"give --config":             {"--from", "gcra:6/1m", "--to", "gcra:5/1m", "--signal-field", "took_ms"},
	} {
		status, _, talk := shell(t, "", append(append([]string{"replay"}, args...), log)...)
		if status != exitUsage || !strings.Contains(talk, want) {
			t.Errorf("%q: status %d: %s\nwant %q", args, status, talk, want)
		}
	}
}
