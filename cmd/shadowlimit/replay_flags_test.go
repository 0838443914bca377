package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// effects give each flag of replay a value that changes the result of replaying effectLog. The
// remaining flags choose the limiters.
var effects = map[string][]string{
	"key":             {"--key", "request.user"},
	"format":          {"--format", "common"},
	"time-field":      {"--time-field", "later"},
	"key-field":       {"--key-field", "user"},
	"cost-field":      {"--cost-field", "size"},
	"map":             {"--map", "request.user=key"},
	"route":           {"--route", "/x"},
	"time-zone":       {"--time-zone", "UTC"},
	"trusted-proxies": {"--trusted-proxies", "10.0.0.0/8"}, // the log has no peers
	"time-format":     {"--time-format", "%Y-%m-%d %H:%M:%S %z"},
	"policy":          {"--policy", "none"},
	"as":              {"--as", "mine=gcra:1/1m"}, // the file has no custom limiter, so it is refused
	"sweep":           {"--sweep", "limit=9,10"},
	"observed":        {"--observed", "response.size == '2'"},
	"decisions":       {"--decisions", "FILE"},
	"html":            {"--html", "FILE"},
	"require-pass":    {"--require-pass"},
	"soak":            {"--soak", "168h"},
	"divergence":      {"--divergence", "3%"},
	"newly-denied":    {"--newly-denied", "3%"},
	"newly-allowed":   {"--newly-allowed", "3%"},
	"extra-load":      {"--extra-load", "3%"},
	"store":           {"--store", "nowhere"},
	"redis":           {"--redis", "redis://127.0.0.1:1", "--store", "redis"},
	"output":          {"--output", "text"},
}

// harmedKeys are the keys of effectLog that the candidate newly denies, and those that it newly allows: more than a report
// names.
const harmedKeys = status.TopKeys + 5

// effectLog has requests of 60 hours, of which both sides deny some and the candidate some more.
func effectLog() []byte {
	log := "t_s,later,key,user,size\n"
	for i := range 1800 {
		at := 1_700_006_400 + 3600*(i/30) + 60
		log += fmt.Sprintf("%d,%d,k%d,u%d,2\n", at, at+5, i/60, i/30)
	}

	// Enough that both sides allow for the gate to pass in time: else no flag would change when.
	for i := range 1200 {
		at := 1_700_006_400 + 3600*(i/20) + 61 + 175*(i%20)
		log += fmt.Sprintf("%d,%d,e%d,e%d,2\n", at, at+5, i%20, i/20)
	}

	// Two requests, and a full minute just after them: only a window that is aligned allows all of that. At the end of the minute
	// only the counter, which has denied two, has room for one.
	for i := range harmedKeys {
		minute := 1_700_006_400 + 4*3600*i + 600
		for _, at := range slices.Concat([]int{50, 50}, slices.Repeat([]int{61}, 10), []int{119}) {
			log += fmt.Sprintf("%d,%d,d%d,d%d,2\n", minute+at, minute+at, i, i)
		}
	}
	return []byte(log)
}

// effectForms are the two forms of one replay of effectLog, without the log.
func effectForms(t *testing.T) map[string][]string {
	t.Helper()
	sides := strings.NewReplacer("fixed_window, limit: 2", "fixed_window, limit: 10",
		"fixed_window, id: next, limit: 1", "sliding_window_counter, limit: 10")
	file := sides.Replace(plain("true", "request.user"))
	return map[string][]string{
		"--from and --to": {"--from", "fixed_window:10/1m", "--to", "sliding_window_counter:10/1m"},
		"--config":        {"--config", write(t, "p.yaml", []byte(file))},
	}
}

// What effectLog needs so that the flags of effects can change something.
func TestEffectLogHasWhatFlagsChange(t *testing.T) {
	log := write(t, "log.csv", effectLog())
	for form, args := range effectForms(t) {
		p := replayed(t, append([]string{log}, args...)...).Policies[0]

		if p.Gate.Verdict != gate.Wait {
			t.Errorf("%s: effectLog has the verdict %s, want wait: of a pass, --require-pass would change nothing",
				form, p.Gate.Verdict)
		}
		for outcome, keys := range map[string]int64{"denied": p.KeysNewlyDenied, "allowed": p.KeysNewlyAllowed} {
			if keys != harmedKeys {
				t.Errorf("%s: effectLog has %d keys that are newly %s, want %d: a flag that bounds the named keys needs more than %d",
					form, keys, outcome, harmedKeys, status.TopKeys)
			}
		}
	}
}

func replayed(t *testing.T, args ...string) (report replay.Report) {
	t.Helper()
	_, out, talk := shell(t, "", append([]string{"replay", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, talk)
	}
	return report
}

// refusedValues are the flags whose value in effects is refused in one of the forms, which is an effect, too.
var refusedValues = []string{
	"key", "key-field", "cost-field", "decisions", // --config has keys and costs, and may have several policies
	"format", "map", "route", "trusted-proxies", "time-zone", "time-format", "policy", "as", "require-pass", "store", "redis",
}

// replayResult is one of the results of a replay that a flag may change: the output in one form, or the part of it that shown returns.
type replayResult struct {
	form  string
	args  []string
	shown func(t *testing.T, output string) string

	// unchanged are the flags that need not change it.
	unchanged []string

	// refusals is set where a flag may be refused only if refusedValues names it.
	refusals bool
}

// Tests know of each flag a value that changes the result.
func TestEveryFlagHasAnEffect(t *testing.T) {
	for _, flag := range replayCommand(streams{}).Flags {
		name := flag.Names()[0]
		if _, known := effects[name]; !known && !slices.Contains([]string{"config", "from", "to"}, name) {
			t.Errorf("--%s: give it a value with an effect in effects", name)
		}
	}
}

// A flag that is added works for --from and --to as well as for --config, or is refused.
func TestReplayFlagsWorkForBothForms(t *testing.T) {
	long(t)
	log := write(t, "log.csv", effectLog())
	for form, args := range effectForms(t) {
		for kind, unchanged := range map[string][]string{
			"--output=json": nil,
			"--output=text": notInText,
			"--html=" + filepath.Join(t.TempDir(), "page.html"): notOnPage,
		} {
			args := append([]string{kind, log}, args...)
			r := replayResult{form: form + " " + kind, args: args, shown: wholePage(kind), unchanged: unchanged, refusals: true}
			r.mustChange(t)
		}
	}
}

// These flags need not change the text or the page of one candidate: what they do is in its JSON, or on standard error.
var (
	notInText = []string{"route"}
	notOnPage = []string{"output", "time-field"}
)

// These flags need not change the text, the page or the list of candidates of a sweep. Those of the gate change the verdict of each
// candidate on other logs.
var (
	gatesOfSweep      = []string{"soak", "divergence", "newly-allowed", "extra-load"}
	notInTextOfSweep  = append([]string{}, gatesOfSweep...)
	notOnPageOfSweep  = append([]string{"output", "time-field"}, gatesOfSweep...)
	notInListOfSweeps = append([]string{"observed", "time-field"}, gatesOfSweep...)
)

// A flag that is added changes what --sweep prints, or is refused beside it.
func TestReplayFlagsWorkForEveryResult(t *testing.T) {
	long(t)
	sweep := []string{
		write(t, "log.csv", effectLog()), "--from", "fixed_window:10/1m", "--to", "sliding_window_counter:10/1m", "--sweep", "limit=8,9",
	}
	page := "--html=" + filepath.Join(t.TempDir(), "page.html")

	for _, r := range []replayResult{
		{form: "--sweep in JSON", args: append(sweep, "--output=json"), shown: sweepOf, unchanged: notInListOfSweeps},
		{form: "--sweep in text", args: append(sweep, "--output=text"), unchanged: notInTextOfSweep},
		{form: "--sweep on a page", args: append(sweep, page), shown: wholePage(page), unchanged: notOnPageOfSweep},
	} {
		r.mustChange(t)
	}
}

// wholePage returns the page that a replay wrote, if the argument says where.
func wholePage(argument string) func(*testing.T, string) string {
	file, isPage := strings.CutPrefix(argument, "--html=")
	if !isPage {
		return nil
	}
	return func(t *testing.T, _ string) string {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
}

// sweepOf returns what the JSON of a replay says of its candidates.
func sweepOf(t *testing.T, output string) string {
	var report struct {
		Policies []struct{ Sweep json.RawMessage }
	}
	if err := json.Unmarshal([]byte(output), &report); err != nil {
		return output // of --output=text
	}
	return string(report.Policies[0].Sweep)
}

// mustChange runs a replay with each flag besides, and asks whether its exit status is meant, and whether the result is another.
func (r *replayResult) mustChange(t *testing.T) {
	t.Helper()
	exit, before, talk := r.run(t)
	if exit != exitOK {
		t.Fatalf("%s: %s", r.form, talk)
	}

	for _, flag := range replayCommand(streams{}).Flags {
		name := flag.Names()[0]
		isGiven := func(arg string) bool { return arg == "--"+name || strings.HasPrefix(arg, "--"+name+"=") }
		if slices.Contains([]string{"config", "from", "to"}, name) || slices.ContainsFunc(r.args, isGiven) {
			continue
		}
		effect, known := effects[name]
		if !known {
			continue // TestEveryFlagHasAnEffect says so
		}

		file := filepath.Join(t.TempDir(), "file")
		more := strings.Split(strings.ReplaceAll(strings.Join(effect, "\n"), "FILE", file), "\n")
		exit, after, talk := r.run(t, more...)
		_, missing := os.Stat(file)
		switch {
		case r.refusals && exit != exitOK && !slices.Contains(refusedValues, name):
			t.Errorf("%s with %q: status %d: give the flag a value in effects that is accepted, or name it in refusedValues\n%s",
				r.form, more, exit, talk)
		case exit == exitOK && after == before && missing != nil && !slices.Contains(r.unchanged, name):
			t.Errorf("%s with %q: changes nothing: it does not reach replay.Config (configOf in replay.go), or the flag is "+
				"ignored there, and should be refused (replayConflicts), or the log has nothing that it could change, "+
				"or this result leaves it out (notInText and its like)\n%s",
				r.form, more, talk)
		}
	}
}

// run replays with more arguments, and returns the exit status, the result, and what standard error says.
func (r *replayResult) run(t *testing.T, more ...string) (exit int, result, talk string) {
	t.Helper()
	exit, result, talk = shell(t, "", slices.Concat([]string{"replay"}, r.args, more)...)
	if exit == exitOK && r.shown != nil {
		result = r.shown(t, result)
	}
	return exit, result, talk
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

// A log without a line that can be read is told the flags that are missing, and no others.
func TestFlagsForALogThatCannotBeRead(t *testing.T) {
	for _, tt := range []struct{ line, flags, want string }{
		{`{"zeit":"2026-01-01T00:00:00Z","wer":"a"}`, "", "give --time-field and --key-field"},
		{`{"zeit":"2026-01-01T00:00:00Z","wer":"a"}`, "--time-field zeit", "give --key-field"},
		{`{"zeit":"2026-01-01T00:00:00Z","wer":"a"}`, "--key-field wer", "give --time-field"},
		{`{"zeit":"2026-01-01T00:00:00Z","ip":"192.0.2.1"}`, "", "give --time-field"},
		{`{"time":"2026-01-01T00:00:00Z","wer":"a"}`, "", "give --key-field"},
		{`{"time":`, "--format jsonl", "give --format"},
	} {
		log := write(t, "x.jsonl", []byte(tt.line+"\n"))
		args := append([]string{"replay", "--from", "gcra:2/1m", "--to", "gcra:1/1m", log}, strings.Fields(tt.flags)...)
		if status, _, talk := shell(t, "", args...); status != 1 || !strings.HasSuffix(talk, ": "+tt.want+"\n") {
			t.Errorf("%s %s: status %d, %s, want %s", tt.line, tt.flags, status, talk, tt.want)
		}
	}
}
