package algorithms_test

import (
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
)

func TestMemoryAgreesWithOracle(t *testing.T) {
	memory := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	limitertest.Differential(t, 1, 50_000, limitertest.Backend{Name: "memory", Pair: memory})
}
