package algorithms_test

import (
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
)

func TestMemoryKeepsTheLaws(t *testing.T) {
	for _, a := range algorithms.All {
		t.Run(a.Name(), func(t *testing.T) {
			limitertest.Run(t, limitertest.Subject{Algorithm: a, New: func(testing.TB) algorithms.Pair {
				return algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
			}})
		})
	}
}
