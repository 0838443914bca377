package lua

import (
	"embed"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

//go:embed *.lua
var sources embed.FS

// files are what the script of an algorithm is made of, besides the prelude and
// the pair.
var files = map[string][]string{
	"fixed_window":           {"window", "fixed_window"},
	"fixed_window_anchored":  {"window", "fixed_window_anchored"},
	"sliding_window_log":     {"sliding_window_log"},
	"sliding_window_counter": {"sliding_window_counter"},
	"token_bucket":           {"bucket", "token_bucket"},
	"gcra":                   {"bucket", "gcra"},
	"leaky_bucket":           {"bucket", "leaky_bucket"},
}

// hasLog reports whether the algorithm keeps a sorted set beside the record.
func hasLog(algorithm string) bool { return algorithm == algorithms.SlidingWindowLog{}.Name() }

type script struct {
	text, sha1 string
	known      atomic.Bool // a server has run it once
}

// scripts makes and keeps the script of each sequence of one or two algorithms.
type scripts struct{ known sync.Map } // [2]string -> *script

func (s *scripts) of(first, second string) *script {
	key := [2]string{first, second}
	if known, ok := s.known.Load(key); ok {
		return known.(*script)
	}
	source := text(first, second)
	known, _ := s.known.LoadOrStore(key, &script{text: source, sha1: redis.NewScript(source).Hash()})
	return known.(*script)
}

// text puts a script together: only what the algorithms need, since Redis builds
// every local function anew in each call.
func text(names ...string) string {
	var b strings.Builder
	add := func(file string) {
		source, err := sources.ReadFile(file + ".lua")
		if err != nil {
			panic(err) // embedded: a test composes every script
		}
		b.Write(source)
	}
	add("prelude")
	added := map[string]bool{}
	var steps, logKeys []string
	logKey := 2
	for _, name := range names {
		if name == "" {
			continue
		}
		for _, f := range files[name] {
			if !added[f] {
				added[f] = true
				add(f)
			}
		}
		steps = append(steps, name)
		if hasLog(name) {
			logKeys = append(logKeys, fmt.Sprint(logKey))
			logKey++
		} else {
			logKeys = append(logKeys, "0") // no such key
		}
	}
	fmt.Fprintf(&b, "local steps, log_keys = {%s}, {%s}\n", strings.Join(steps, ", "), strings.Join(logKeys, ", "))
	add("pair")
	return b.String()
}
