package algorithms_test

import (
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
)

func TestMemoryAgreesWithOracle(t *testing.T) {
	memory := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	programs := 50_000
	if testing.Short() {
		programs = 10_000
	}
	limitertest.Differential(t, 1, programs, limitertest.Backend{Name: "memory", Pair: memory})
}

// FuzzMemory looks for a trace on which the pair and the oracle differ.
func FuzzMemory(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		memory := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
		limitertest.Differential(t, seed, 1, limitertest.Backend{Name: "memory", Pair: memory})
	})
}
