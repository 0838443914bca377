package lua

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

//go:embed *.lua
var sources embed.FS

// step is how an algorithm takes part in a script.
type step struct {
	files  []string // of its chunk of Lua, one behind the other; pair.lua says what that reads and sets
	hasLog bool     // it keeps a sorted set beside the record
}

// steps has the algorithms that Redis can judge by name. A side of another algorithm has ErrAlgorithm.
var steps = map[string]step{
	"fixed_window":           {files: []string{"fixed_window", "window"}},
	"fixed_window_anchored":  {files: []string{"fixed_window_anchored", "window"}},
	"sliding_window_log":     {files: []string{"sliding_window_log"}, hasLog: true},
	"sliding_window_counter": {files: []string{"sliding_window_counter"}},
	"token_bucket":           {files: []string{"bucket"}},
	"gcra":                   {files: []string{"bucket"}},
	"leaky_bucket":           {files: []string{"bucket", "leaky_bucket"}},
}

// HasScript reports whether Redis can judge sides of the algorithm.
func HasScript(a algorithms.Algorithm) bool {
	_, termed := a.(algorithms.Termed)
	return termed && steps[a.Name()].files != nil
}

// script is what Redis runs for a check.
type script struct {
	text  string
	sha1  any         // a text: a command takes any, and to make one of it for each call is to allocate
	known atomic.Bool // a server has run it once
}

// scripts makes and keeps the script of each sequence of one or two steps, and of each list of them that requests have had. There are
// few, so nothing is ever dropped.
type scripts struct{ known sync.Map } // sequence, or text of a []listed -> *script

// sequence is one step, or two, "" meaning none.
type sequence [2]string

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

// list returns the script of checks that are charged together.
func (s *scripts) list(checks []listed) *script {
	key := fmt.Sprint(checks)
	if known, ok := s.known.Load(key); ok {
		return known.(*script)
	}

	source := listText(checks)
	known, _ := s.known.LoadOrStore(key, &script{text: source, sha1: redis.NewScript(source).Hash()})
	return known.(*script)
}

// listed is a check of a list as far as the script depends on it.
type listed struct {
	steps sequence
	binds bool // its first side is the enforced one
}

// pairTemplate becomes each script.
var pairTemplate = template.Must(template.New("pair").Parse(sourceOf("record", "pair")))

// pairScript is what pairTemplate is filled with.
type pairScript struct {
	Binary    string // stands in for struct
	Functions string // of logs, where a side keeps one, of this check or of another one of its list
	Sides     []pairSide
	Two       bool
	Twins     bool // two of one algorithm
	Spare     *pairSide
	Record    int // the place of the record among KEYS
	Argument  int // and of the check's numbers among ARGV
	Listed    bool
	keys      int // how many it has
}

// pairSide is a side of a script.
type pairSide struct {
	N    int // from 1 on
	Step string
	Key  int // of its log among KEYS; 0: it has none
}

// Logs reports whether a side keeps a log.
func (s pairScript) Logs() bool { return s.keys > 1 }

// text puts the script of a sequence together.
func text(key sequence) string { return execute(pairTemplate, pairScriptOf(key, 1, 1)) }

// listScript is what listTemplate is filled with.
type listScript struct{ Checks []listedScript }

// listedScript is a check of a list.
type listedScript struct {
	pairScript
	Index int
	Binds bool
	Last  bool
}

// Next returns the index of the check behind this one.
func (s listedScript) Next() int { return s.Index + 1 }

// Backwards returns the checks with the last one first: a function of Lua has to stand before the one that calls it.
func (s listScript) Backwards() []listedScript {
	checks := slices.Clone(s.Checks)
	slices.Reverse(checks)
	return checks
}

var listTemplate = template.Must(template.New("list").Parse(sourceOf("record", "list")))

// listText puts the script of a list together.
func listText(checks []listed) string {
	var s listScript
	keys, functions := 0, ""
	for i, c := range checks {
		this := pairScriptOf(c.steps, keys+1, i+1)
		this.Listed = true
		functions = cmp.Or(functions, this.Functions)
		s.Checks = append(s.Checks, listedScript{this, i, c.binds, i == len(checks)-1})
		keys += this.keys
	}
	s.Checks[0].Functions = functions
	return execute(listTemplate, s)
}

// pairScriptOf returns what the template of a check is filled with whose keys and argument begin at those places.
func pairScriptOf(key sequence, record, argument int) pairScript {
	s := pairScript{
		Binary: sourceOf("binary"), Two: key[1] != "", Twins: key[0] == key[1], Record: record, Argument: argument, keys: 1,
	}
	for i, name := range key {
		if name == "" {
			continue
		}

		this := steps[name]
		side := pairSide{N: i + 1, Step: sourceOf(this.files...)}
		if this.hasLog {
			side.Key = record + s.keys
			s.keys++
			s.Functions = sourceOf("log")
		}
		s.Sides = append(s.Sides, side)
	}

	// The log that may be given up is that of the last side: where there are two, the other one is enforced.
	if last := &s.Sides[len(s.Sides)-1]; last.Key > 0 {
		s.Spare = last
	}
	return s
}

func execute(t *template.Template, with any) string {
	var b strings.Builder
	if err := t.Execute(&b, with); err != nil {
		panic(err) // a test composes every script
	}
	return b.String()
}

// sourceOf returns files of this folder, one behind the other.
func sourceOf(files ...string) string {
	var b strings.Builder
	for _, file := range files {
		source, err := sources.ReadFile(file + ".lua")
		if err != nil {
			panic(err) // the files are embedded, and a test composes every script
		}
		b.Write(source)
	}
	return b.String()
}
