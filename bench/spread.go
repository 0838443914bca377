package main

import "slices"

// spread is the median of some rounds with the quartiles.
type spread struct{ low, median, high float64 }

// spreadOf returns the spread of numbers. Between two of them it is the line through both.
func spreadOf(numbers []float64) spread {
	sorted := slices.Sorted(slices.Values(numbers))
	at := func(share float64) float64 {
		place := share * float64(len(sorted)-1)
		below := int(place)
		above := min(below+1, len(sorted)-1)
		return sorted[below] + (sorted[above]-sorted[below])*(place-float64(below))
	}
	return spread{at(0.25), at(0.5), at(0.75)}
}

func (s spread) String() string {
	return amount(s.median) + " [" + amount(s.low) + " " + amount(s.high) + "]"
}

// of returns the numbers of a subject in a column, one a round.
func (r results) of(subject, column string) []float64 {
	numbers, ok := r[subject][column]
	if !ok {
		panic("bench: no subject " + subject + " with a column " + column)
	}
	return numbers
}

func (r results) spread(subject, column string) spread { return spreadOf(r.of(subject, column)) }

// over returns the spread of the ratio of two subjects, each taken within a round.
func (r results) over(subject, peer, column string) spread {
	return spreadOf(divided(r.of(subject, column), r.of(peer, column)))
}

// divided divides numbers of the same rounds.
func divided(a, b []float64) []float64 {
	return each(a, b, func(x, y float64) float64 { return x / y })
}

// less subtracts numbers of the same rounds.
func less(a, b []float64) []float64 {
	return each(a, b, func(x, y float64) float64 { return x - y })
}

func each(a, b []float64, do func(x, y float64) float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = do(a[i], b[i])
	}
	return out
}
