package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// effects give each flag of replay a value that changes the result of replaying effectLog. The
// remaining flags choose the limiters.
var effects = map[string][]string{
	"key":           {"--key", "request.user"},
	"format":        {"--format", "common"},
	"time-field":    {"--time-field", "later"},
	"key-field":     {"--key-field", "user"},
	"cost-field":    {"--cost-field", "size"},
	"decisions":     {"--decisions", "FILE"},
	"require-pass":  {"--require-pass"},
	"soak":          {"--soak", "96h"},
	"block":         {"--block", "7h"},
	"divergence":    {"--divergence", "3%"},
	"newly-denied":  {"--newly-denied", "3%"},
	"newly-allowed": {"--newly-allowed", "3%"},
	"store":         {"--store", "nowhere"},
	"redis":         {"--redis", "redis://127.0.0.1:1", "--store", "redis"},
	"output":        {"--output", "text"},
}

// withoutEffect are the flags that --config ignores: the file's expressions make keys and costs.
var withoutEffect = map[string]bool{"key-field": true, "cost-field": true}

// effectLog has requests of 60 hours, of which some are denied.
func effectLog() []byte {
	log := "t_s,later,key,user,size\n"
	for i := range 1800 {
		at := 1_700_006_400 + 3600*(i/30) + 60
		log += fmt.Sprintf("%d,%d,k%d,u%d,2\n", at, at+5, i/60, i/30)
	}
	return []byte(log)
}

// A flag that is added works for --from and --to as well as for --config, or is refused.
func TestReplayFlagsWorkForBothForms(t *testing.T) {
	log := write(t, "log.csv", effectLog())
	limits := strings.NewReplacer("limit: 2", "limit: 10", "limit: 1,", "limit: 10,")
	file := limits.Replace(plain("true", "request.user"))
	forms := map[string][]string{
		"--from and --to": {"--from", "fixed_window:10/1m", "--to", "sliding_window_counter:10/1m"},
		"--config":        {"--config", write(t, "p.yaml", []byte(file))},
	}

	for form, args := range forms {
		args = append([]string{"replay", "-o", "json", log}, args...)
		_, before, talk := shell(t, "", args...)
		if before == "" {
			t.Fatalf("%s: %s", form, talk)
		}

		for _, flag := range replayCommand(streams{}).Flags {
			name := flag.Names()[0]
			if name == "config" || name == "from" || name == "to" {
				continue
			}
			effect, known := effects[name]
			if !known {
				t.Errorf("--%s: give it a value with an effect in effects", name)
				continue
			}

			decisions := filepath.Join(t.TempDir(), "decisions")
			more := strings.Split(strings.ReplaceAll(strings.Join(effect, "\n"), "FILE", decisions), "\n")
			status, after, talk := shell(t, "", append(args, more...)...)
			_, missing := os.Stat(decisions)
			changed := status != exitOK || after != before || missing == nil
			if want := form != "--config" || !withoutEffect[name]; changed != want {
				t.Errorf("%s with %q: changes something: %t, want %t: "+
					"the flag is ignored in this form, or effectLog has nothing that it could change\n%s", form, more, changed, want, talk)
			}
		}
	}
}

// A flag that is added to replay is in its document, too.
func TestEveryFlagOfReplayIsDocumented(t *testing.T) {
	const document = "../../docs/replay.md"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}

	// Whole words: --key is no mention of --key-field, nor the other way round.
	named := regexp.MustCompile(`(?:^|[^\w-])--?([\w-]+)`).FindAllStringSubmatch(string(text), -1)
	for _, flag := range replayCommand(streams{}).Flags {
		isNamed := slices.ContainsFunc(named, func(found []string) bool { return slices.Contains(flag.Names(), found[1]) })
		if !isNamed {
			t.Errorf("%s does not name --%s: say there when to use it", document, flag.Names()[0])
		}
	}
}
