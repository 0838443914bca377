package lua

import (
	"embed"
	"fmt"
	"slices"
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
	delays bool     // an admitted charge may have a delay
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

func sourceOf(file string) string {
	source, err := sources.ReadFile(file + ".lua")
	if err != nil {
		panic(err) // the files are embedded, and a test composes every script
	}
	return string(source)
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
	var logKeys []string
	logKey := 2 // KEYS[1] is the record
	for _, name := range names {
		this := steps[name]
		for _, file := range this.files {
			add(file)
		}
		if !this.hasLog {
			logKeys = append(logKeys, "0") // KEYS[0] is nil
			continue
		}
		logKeys = append(logKeys, fmt.Sprint(logKey))
		logKey++
	}

	fmt.Fprintf(&b, "local steps, log_keys = {%s}, {%s}\n", strings.Join(names, ", "), strings.Join(logKeys, ", "))
	add("pair")

	// A charge that is not usual goes on behind the straight part.
	if key.form == general {
		return b.String()
	}
	return straightText(names, key.form == straightNumbered, libraryOf(b.String())) + b.String()
}
