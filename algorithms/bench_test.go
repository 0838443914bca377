package algorithms_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// BenchmarkEvaluate is one check in memory: of one side, or of a fixed window
// and a GCRA.
func BenchmarkEvaluate(b *testing.B) {
	limit := algorithms.Limit{Requests: 1_000_000_000, Window: time.Second}
	window := algorithms.Side{Algorithm: algorithms.FixedWindow{}, Limit: limit}
	gcra := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: limit}

	for _, sides := range [][2]algorithms.Side{{window}, {gcra}, {window, gcra}} {
		b.Run(sides[0].Name()+" "+sides[1].Name(), func(b *testing.B) {
			pair := algorithms.NewMemory(algorithms.MemoryConfig{})
			checks := []algorithms.Check{{Policy: "p", Key: "client", Cost: 1, Sides: sides}}
			into := make([][2]algorithms.Observation, 1)

			b.ReportAllocs()
			for b.Loop() {
				_ = pair.Evaluate(context.Background(), checks, into)
			}
		})
	}
}

// BenchmarkSynchronized is BenchmarkEvaluate with the notes for the fleet, which has no part in a decision.
func BenchmarkSynchronized(b *testing.B) {
	limit := algorithms.Limit{Requests: 1_000_000_000, Window: time.Second}
	window := algorithms.Side{Algorithm: algorithms.FixedWindow{}, Limit: limit}
	gcra := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: limit}

	for _, synchronized := range []bool{false, true} {
		for _, sides := range [][2]algorithms.Side{{window}, {gcra}, {window, gcra}} {
			b.Run(fmt.Sprint(sides[0].Name(), " ", sides[1].Name(), " ", synchronized), func(b *testing.B) {
				pair := algorithms.NewMemory(algorithms.MemoryConfig{Synchronized: synchronized})
				checks := []algorithms.Check{{Policy: "p", Key: "client", Cost: 1, Sides: sides}}
				into := make([][2]algorithms.Observation, 1)

				b.ReportAllocs()
				for b.Loop() {
					_ = pair.Evaluate(context.Background(), checks, into)
				}
			})
		}
	}
}
