package lua

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

//go:embed *.lua
var sources embed.FS

// step is how an algorithm takes part in a script.
type step struct {
	files  []string // in the order of their use, besides the prelude and the pair
	hasLog bool     // it keeps a sorted set beside the record
	counts bool     // a denied cost counts
	delays bool     // an admitted charge may have a delay
	// function is the step's Lua function where that has not the row's name.
	function string
	// withOptions has the step given its options behind the window. keepsPhase reports that an empty key may be in use.
	withOptions, keepsPhase bool
}

// steps has the algorithms that Redis can judge by name, which is also the name of the
// step's Lua function. A side of another algorithm has ErrAlgorithm.
var steps = map[string]step{
	"fixed_window":           {files: []string{"window", "fixed_window"}},
	"fixed_window_anchored":  {files: []string{"window", "fixed_window_anchored"}},
	"sliding_window_log":     {files: []string{"sliding_window_log"}, hasLog: true},
	"sliding_window_counter": {files: []string{"sliding_window_counter"}},
	"token_bucket":           {files: []string{"bucket", "token_bucket"}},
	"gcra":                   {files: []string{"bucket", "gcra"}},
	"leaky_bucket":           {files: []string{"bucket", "leaky_bucket"}, delays: true},
}

// optional has the steps of sides with options. Sides without options have scripts
// that know nothing of them.
var optional = map[string]step{
	"fixed_window_counted":          {files: []string{"window", "count_denied", "fixed_window_counted"}, counts: true},
	"fixed_window_anchored_counted": {files: []string{"window", "count_denied", "fixed_window_anchored_counted"}, counts: true},
	"sliding_window_counter_counted": {
		files: []string{"sliding_window_counter", "count_denied", "sliding_window_counter_counted"}, counts: true,
	},
	"sliding_window_log_counted": {
		files: []string{"sliding_window_log", "sliding_window_log_counted"}, hasLog: true, counts: true,
	},

	"fixed_window_first":                   phased("fixed_window", "window", false, true),
	"fixed_window_first_counted":           phased("fixed_window", "window", true, true),
	"fixed_window_hash":                    phased("fixed_window", "window", false, false),
	"fixed_window_hash_counted":            phased("fixed_window", "window", true, false),
	"sliding_window_counter_first":         phased("sliding_window_counter", "sliding_window_counter", false, false),
	"sliding_window_counter_first_counted": phased("sliding_window_counter", "sliding_window_counter", true, false),
	"sliding_window_counter_hash":          phased("sliding_window_counter", "sliding_window_counter", false, false),
	"sliding_window_counter_hash_counted":  phased("sliding_window_counter", "sliding_window_counter", true, false),

	"fixed_window_calendar": {
		files: []string{"window", "count_denied", "fixed_window_calendar"}, withOptions: true,
	},
	"fixed_window_calendar_counted": {
		files:  []string{"window", "count_denied", "fixed_window_calendar", "fixed_window_calendar_counted"},
		counts: true, withOptions: true,
	},

	"token_bucket_stepped":         stepped("stepped_bucket", false),
	"token_bucket_stepped_counted": stepped("stepped_bucket", true),
	"gcra_stepped":                 stepped("stepped_bucket", false),
	"gcra_stepped_counted":         stepped("stepped_bucket", true),
	"leaky_bucket_stepped":         stepped("stepped_queue", false),
	"leaky_bucket_stepped_counted": stepped("stepped_queue", true),
}

// stepped returns the row of a bucket's step whose tokens come in steps, or that forgets: then a denied charge counts as one.
func stepped(function string, counts bool) step {
	// GCRA and token bucket share a function, for they differ in nothing but their terms. A queue's also says how long it
	// holds a charge.
	files := []string{"bucket", "bucket_stepped"}
	if counts {
		function += "_counted"
		files = append(files, "bucket_stepped_counted")
	}
	return step{files: files, function: function, counts: counts, withOptions: true}
}

// phased returns the row of an algorithm's step for windows that do not begin at the epoch.
func phased(algorithm, common string, counts, keepsPhase bool) step {
	function := algorithm + "_phased"
	files := []string{common, "count_denied", function}
	if counts {
		function += "_counted"
		files = append(files, function)
	}
	return step{files: files, function: function, counts: counts, withOptions: true, keepsPhase: keepsPhase}
}

// stepOf returns the name of a side's step, and its row.
func stepOf(s *algorithms.Side) (string, step) {
	// Nearly every side is without options. It pays for this comparison and for nothing else.
	name := s.Algorithm.Name()
	if s.Limit.Options == (algorithms.Options{}) {
		return name, steps[name]
	}

	// The parts of a name have one order, so each set of options has one name and one row. A set without a row has no
	// script, which TestEveryOptionHasAScript finds.
	switch s.Limit.Phase {
	case algorithms.PhaseFirst:
		name += "_first"
	case algorithms.PhaseHash:
		name += "_hash"
	}
	if s.Limit.Calendar != algorithms.NoCalendar {
		name += "_calendar"
	}
	if s.Limit.Refill != 0 || s.Limit.Forget != 0 {
		name += "_stepped"
	}
	if countsDenied(s) {
		name += "_counted"
	}
	return name, row(name)
}

// countsDenied reports whether a denied cost counts. A limit of 0 denies whatever was counted.
func countsDenied(s *algorithms.Side) bool {
	return s.Limit.CountsDenied() && s.Limit.Requests > 0
}

// fourth returns the fourth term of a side's limit as its step takes it: the window, and with options what they are behind it.
func (s step) fourth(side *algorithms.Side, window int64, key string) any {
	// A step without options takes a number. The others take a text, whose parts the step's file reads
	// apart: then all steps have as many arguments, and one script calls any of them.
	l := &side.Limit
	switch {
	case !s.withOptions:
		return window
	case l.Calendar != algorithms.NoCalendar:
		return fmt.Sprint(window, " ", l.Calendar)
	case l.Phase == algorithms.PhaseFirst:
		return fmt.Sprint(window, " first")
	case l.Phase == algorithms.PhaseHash:
		return fmt.Sprint(window, " ", algorithms.PhaseOf(key, *l))
	}
	return fmt.Sprint(window, " ", max(1, l.Refill.Microseconds()), " ", l.Forget.Microseconds())
}

// row returns the row of a step.
func row(name string) step {
	if known, ok := steps[name]; ok {
		return known
	}
	return optional[name]
}

// HasScript reports whether Redis can judge sides of the algorithm.
func HasScript(a algorithms.Algorithm) bool {
	_, termed := a.(algorithms.Termed)
	return termed && steps[a.Name()].files != nil
}

// script is what Redis runs for a charge.
type script struct {
	text  string
	sha1  any         // a text: a command takes any, and to make one of it for each call is to allocate
	known atomic.Bool // a server has run it once
}

// scripts makes and keeps the script of each sequence of one or two steps. There are
// few sequences, so nothing is ever dropped.
type scripts struct{ known sync.Map } // sequence -> *script

// sequence is one step, or two, "" meaning none, and the form of their script.
type sequence struct {
	steps [2]string
	form  form
}

// of returns the script of a sequence. Two callers may make the same one at once; all use the one that was stored first, so
// that they share its known.
func (s *scripts) of(key sequence) *script {
	if known, ok := s.known.Load(key); ok {
		return known.(*script)
	}

	source := text(key)
	known, _ := s.known.LoadOrStore(key, &script{text: source, sha1: redis.NewScript(source).Hash()})
	return known.(*script)
}

// sourceOf returns the text of a file.
func sourceOf(file string) string {
	source, err := sources.ReadFile(file + ".lua")
	if err != nil {
		panic(err) // the files are embedded, and a test composes every script
	}
	return string(source)
}

// tableOrNil returns the text of a table of conditions, or nil where none of them is true.
func tableOrNil(conditions []string) string {
	if !slices.Contains(conditions, "true") {
		return "nil"
	}
	return "{" + strings.Join(conditions, ", ") + "}"
}

// text puts a script together: only what the algorithms need, since Redis defines
// every local function again in each call.
func text(key sequence) string {
	var b strings.Builder
	added := map[string]bool{}
	add := func(file string) {
		if added[file] {
			return
		}
		added[file] = true

		b.WriteString(sourceOf(file))
	}

	add("prelude")
	names := slices.DeleteFunc(key.steps[:], func(name string) bool { return name == "" })
	var functions, logKeys, counts, keeps []string
	logKey := 2 // KEYS[1] is the record
	for _, name := range names {
		this := row(name)
		for _, file := range this.files {
			add(file)
		}
		functions = append(functions, cmp.Or(this.function, name))
		counts = append(counts, strconv.FormatBool(this.counts))
		keeps = append(keeps, strconv.FormatBool(this.keepsPhase))

		if !this.hasLog {
			logKeys = append(logKeys, "0") // KEYS[0] is nil
			continue
		}
		logKeys = append(logKeys, fmt.Sprint(logKey))
		logKey++
	}

	fmt.Fprintf(&b, "local steps, log_keys = {%s}, {%s}\n", strings.Join(functions, ", "), strings.Join(logKeys, ", "))
	fmt.Fprintf(&b, "local counts_denied, keeps_phase = %s, %s\n", tableOrNil(counts), tableOrNil(keeps))
	add("pair")

	// A charge that is not usual goes on behind the straight part.
	if key.form == general {
		return b.String()
	}
	return straightText(names, key.form == straightNumbered, libraryOf(b.String())) + b.String()
}
