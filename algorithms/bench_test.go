package algorithms_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// BenchmarkEvaluate is one charge in memory: of one side, or of a fixed window
// and a GCRA.
func BenchmarkEvaluate(b *testing.B) {
	limit := algorithms.Limit{Requests: 1_000_000_000, Window: time.Second}
	window := algorithms.Side{Algorithm: algorithms.FixedWindow{}, Limit: limit}
	gcra := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: limit}

	for _, sides := range [][2]algorithms.Side{{window}, {gcra}, {window, gcra}} {
		b.Run(sides[0].Name()+" "+sides[1].Name(), func(b *testing.B) {
			pair := algorithms.NewMemory(algorithms.MemoryConfig{})
			charges := []algorithms.Charge{{Policy: "p", Key: "client", Cost: 1, Sides: sides}}
			into := make([][2]algorithms.Observation, 1)

			b.ReportAllocs()
			for b.Loop() {
				_ = pair.Evaluate(context.Background(), charges, into)
			}
		})
	}
}

// BenchmarkGroup is one charge of two limits by both sides: as two policies, which are judged one after another, and as a
// group of two members.
func BenchmarkGroup(b *testing.B) {
	second := algorithms.Limit{Requests: 1_000_000_000, Window: time.Second}
	minute := algorithms.Limit{Requests: 1_000_000_000, Window: time.Minute}
	policy := func(name string, l algorithms.Limit) algorithms.Charge {
		return algorithms.Charge{Policy: name, Key: "client", Cost: 1, Sides: [2]algorithms.Side{
			{Algorithm: algorithms.FixedWindow{}, Limit: l}, {Algorithm: algorithms.GCRA{}, Limit: l},
		}}
	}
	group := func(id string, a algorithms.Algorithm) algorithms.Side {
		return algorithms.Side{ID: id, Algorithm: &algorithms.Group{Members: []algorithms.Member{
			{Name: "second", Algorithm: a, Limit: second}, {Name: "minute", Algorithm: a, Limit: minute},
		}}}
	}

	for name, charges := range map[string][]algorithms.Charge{
		"two policies": {policy("second", second), policy("minute", minute)},
		"a group of two": {{Policy: "both", Key: "client", Cost: 1, Sides: [2]algorithms.Side{
			group("today", algorithms.FixedWindow{}), group("tomorrow", algorithms.GCRA{}),
		}}},
	} {
		b.Run(name, func(b *testing.B) {
			pair := algorithms.NewMemory(algorithms.MemoryConfig{})
			into := make([][2]algorithms.Observation, len(charges))

			b.ReportAllocs()
			for b.Loop() {
				_ = pair.Evaluate(context.Background(), charges, into)
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
				charges := []algorithms.Charge{{Policy: "p", Key: "client", Cost: 1, Sides: sides}}
				into := make([][2]algorithms.Observation, 1)

				b.ReportAllocs()
				for b.Loop() {
					_ = pair.Evaluate(context.Background(), charges, into)
				}
			})
		}
	}
}
