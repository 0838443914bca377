package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/lua"
)

const (
	searchVariable = "SHADOWLIMIT_TEST_SEARCH" // the programs of the servers, as PATH lists its folders
	searchSteps    = 100_000                   // between two lines of progress
)

// TestSearch looks for a step on which a server differs from the oracle, as TestDifferential does, for as long as -steps says.
// All servers share the oracle's work, and miniredis, which takes most of the time there, is left out.
func TestSearch(t *testing.T) {
	programs := filepath.SplitList(os.Getenv(searchVariable))
	if len(programs) == 0 {
		t.Skipf("%s lists no server: make search", searchVariable)
	}

	var addrs []string
	for _, program := range programs {
		t.Setenv(programVariable, program)
		addrs = append(addrs, privateServer(t))
	}

	for done := 0; done < *steps; done += searchSteps {
		limitertest.Differential(t, *seed+uint64(done), min(searchSteps, *steps-done), searched(t, addrs)...)
		if t.Failed() {
			return
		}
		fmt.Printf("integration: %d of %d steps from seed %d on %d servers: no difference\n",
			min(done+searchSteps, *steps), *steps, *seed, len(addrs))
	}
}

// searched returns the backends of a part of the search. What the part before has stored is given up, so that memory is bounded.
func searched(t *testing.T, addrs []string) []limitertest.Backend {
	memory := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	backends := []limitertest.Backend{{Name: "memory", Pair: memory}}
	for _, addr := range addrs {
		_, client := newPair(t, addr)
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}

		name := newName()
		pair := &renewed{make: func() *lua.Pair { return pairOn(t, client, name) }}
		backends = append(backends, limitertest.Backend{Name: "lua on redis, " + addr, Pair: pair})
	}
	return backends
}
