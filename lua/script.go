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
	settle []string // the same of a settlement; see settle.lua
	hasLog bool     // it keeps a sorted set beside the record
}

// steps has the algorithms that Redis can judge by name. A side of another algorithm has ErrAlgorithm.
var steps = map[string]step{
	"fixed_window":           {files: []string{"fixed_window", "window"}, settle: []string{"settle_fixed_window"}},
	"fixed_window_anchored":  {files: []string{"fixed_window_anchored", "window"}, settle: []string{"settle_fixed_window_anchored"}},
	"sliding_window_log":     {files: []string{"sliding_window_log"}, settle: []string{"settle_sliding_window_log"}, hasLog: true},
	"sliding_window_counter": {files: []string{"sliding_window_counter"}, settle: []string{"settle_sliding_window_counter"}},
	"token_bucket":           {files: []string{"debt", "bucket"}, settle: []string{"debt", "settle_bucket"}},
	"gcra":                   {files: []string{"debt", "bucket"}, settle: []string{"debt", "settle_bucket"}},
	"leaky_bucket":           {files: []string{"debt", "bucket", "leaky_bucket"}, settle: []string{"debt", "settle_bucket"}},
}

// HasScript reports whether Redis can judge sides of the algorithm.
func HasScript(a algorithms.Algorithm) bool {
	_, twin, _ := algorithms.TermsOf(a, algorithms.Limit{})
	return twin && steps[a.Name()].files != nil
}

// script is what Redis runs for a check.
type script struct {
	text  string
	sha1  any         // a text: a command takes any, and to make one of it for each call is to allocate
	known atomic.Bool // a server has run it once
}

// scripts makes and keeps the script of each sequence of one or two steps, and of each list of them that requests have had. There are
// few, so nothing is ever dropped.
type scripts struct{ known sync.Map } // what it is made of -> *script

// sequence is one step, or two, "" meaning none.
type sequence [2]string

// receipted is a sequence whose reply has what receipts need.
type receipted sequence

// settling is a sequence of settlements.
type settling sequence

// of returns the script of a key, which makes its text. Two callers may make the same one at once; all use the one that was stored
// first, so that they share its known.
func (s *scripts) of(key any, text func() string) *script {
	if known, ok := s.known.Load(key); ok {
		return known.(*script)
	}

	source := text()
	known, _ := s.known.LoadOrStore(key, &script{text: source, sha1: redis.NewScript(source).Hash()})
	return known.(*script)
}

// pair returns the script of a check.
func (s *scripts) pair(key sequence, receipt bool) *script {
	if receipt {
		return s.of(receipted(key), func() string { return text(key, true) })
	}
	return s.of(key, func() string { return text(key, false) })
}

// list returns the script of checks that are charged together.
func (s *scripts) list(checks []listed) *script {
	return s.of(fmt.Sprint(checks), func() string { return listText(checks) })
}

// settle returns the script of a settlement.
func (s *scripts) settle(key sequence) *script {
	return s.of(settling(key), func() string { return settleText(key) })
}

// listed is a check of a list as far as the script depends on it.
type listed struct {
	steps   sequence
	binds   bool // its first side is the enforced one
	receipt bool
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
	Receipt   bool // the reply has last and aux of each side, for a receipt
	keys      int  // how many it has
}

// pairSide is a side of a script.
type pairSide struct {
	N      int // from 1 on
	Step   string
	Key    int // of its log among KEYS; 0: it has none
	Bucket bool
}

// Logs reports whether a side keeps a log.
func (s pairScript) Logs() bool { return s.keys > 1 }

// text puts the script of a sequence together.
func text(key sequence, receipt bool) string {
	s := pairScriptOf(key, 1, 1)
	s.Receipt = receipt
	return execute(pairTemplate, s)
}

var settleTemplate = template.Must(template.New("settle").Parse(sourceOf("settle")))

// settleText puts the script of a settlement together.
func settleText(key sequence) string {
	s := pairScriptOf(key, 1, 1)
	for i := range s.Sides {
		s.Sides[i].Step = sourceOf(steps[key[i]].settle...)
		s.Sides[i].Bucket = steps[key[i]].settle[0] == "debt"
	}
	return execute(settleTemplate, s)
}

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
		this.Listed, this.Receipt = true, c.receipt
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
