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
	// function is the step's Lua function where that has not the row's name.
	function string
	// phased has the step given its options in the place of the window. keepsPhase reports that an empty key may be in use.
	phased, keepsPhase bool
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
	"leaky_bucket":           {files: []string{"bucket", "leaky_bucket"}},
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
}

// phased returns the row of an algorithm's step for windows that do not begin at the epoch.
func phased(algorithm, common string, counts, keepsPhase bool) step {
	function := algorithm + "_phased"
	files := []string{common, "count_denied", function}
	if counts {
		function += "_counted"
		files = append(files, function)
	}
	return step{files: files, function: function, counts: counts, phased: true, keepsPhase: keepsPhase}
}

// stepOf returns the name of a side's step, and its row.
func stepOf(s *algorithms.Side) (string, step) {
	name := s.Algorithm.Name()
	if s.Limit.Options == (algorithms.Options{}) {
		return name, steps[name]
	}

	switch s.Limit.Phase {
	case algorithms.PhaseFirst:
		name += "_first"
	case algorithms.PhaseHash:
		name += "_hash"
	}
	if countsDenied(s) {
		name += "_counted"
	}
	return name, row(name)
}

// countsDenied reports whether a denied cost counts. A limit of 0 denies whatever was counted.
func countsDenied(s *algorithms.Side) bool { return s.Limit.CountDenied && s.Limit.Requests > 0 }

// fourth returns the fourth term of a side's limit as its step takes it: the window, and for a phased step its options.
func (s step) fourth(side *algorithms.Side, window int64, key string) any {
	if !s.phased {
		return window
	}

	phase := "first"
	if side.Limit.Phase == algorithms.PhaseHash {
		phase = strconv.FormatInt(algorithms.PhaseOf(key, side.Limit), 10)
	}
	return strconv.FormatInt(window, 10) + " " + phase
}

// row returns the row of a step.
func row(name string) step {
	if known, ok := steps[name]; ok {
		return known
	}
	return optional[name]
}

// HasScript reports whether Redis can judge sides of the algorithm, or of a group's members.
func HasScript(a algorithms.Algorithm) bool {
	if g, ok := a.(*algorithms.Group); ok {
		return !slices.ContainsFunc(g.Members, func(m algorithms.Member) bool { return !HasScript(m.Algorithm) })
	}
	_, termed := a.(algorithms.Termed)
	return termed && steps[a.Name()].files != nil
}

// script is what Redis runs for a charge.
type script struct {
	text, sha1 string
	known      atomic.Bool // a server has run it once
}

// scripts makes and keeps the script of each sequence of one or two steps. There are
// few sequences, so nothing is ever dropped.
type scripts struct{ known sync.Map } // [2]string, or the names of a group's functions -> *script

// of returns the script of one step, or of two, "" meaning none.
func (s *scripts) of(first, second string) *script {
	key := [2]string{first, second}
	if known, ok := s.known.Load(key); ok {
		return known.(*script)
	}

	return s.keep(key, text(first, second))
}

// keep stores a script. Two callers may make the same one at once; all use the one that was stored first, so that they
// share its known.
func (s *scripts) keep(key any, source string) *script {
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
func text(names ...string) string {
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
	var functions, logKeys, counts, keeps []string
	logKey := 2 // KEYS[1] is the record
	for _, name := range names {
		if name == "" {
			continue // one side alone
		}

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
	return b.String()
}
