package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

// part is a list of subjects that are compared with each other.
type part struct {
	name string
	// columns are the names of the numbers that a measurement of each subject has.
	columns  []string
	subjects []subject
	// rounds is how many of this part there are for each one that was asked for. Parts with short slices have more of them, so that
	// the slices of a round are close to each other in time.
	rounds float64
	// goals returns the rows of docs/performance.md.
	goals func(r results) []goal
}

// subject is one of the things that are compared.
type subject struct {
	name string
	// open prepares the subject and returns the function that measures one slice: a number for each column of the part.
	open func(*site) (measure, error)
}

type measure func() ([]float64, error)

// size is how long slices are.
type size struct {
	calls int // of a cheap call in this process; dearer ones are less often called
	lines int // of a log
	slice time.Duration
}

var (
	full  = size{calls: 64_000, lines: 5_000_000, slice: 700 * time.Millisecond}
	short = size{calls: 2_000, lines: 20_000, slice: 200 * time.Millisecond}
)

// site is where a part runs. close undoes everything that its subjects have opened.
type site struct {
	size
	dir    string
	redis  *server
	log    string
	closer []func()
}

func (s *site) atEnd(f func()) { s.closer = append(s.closer, f) }

func (s *site) close() {
	for _, f := range slices.Backward(s.closer) {
		f()
	}
}

// results are the numbers of a run: of each subject and column one for each round.
type results map[string]map[string][]float64

// times is how often a subject of the part has its turn.
func (p part) times(rounds int) int {
	return max(1, int(float64(rounds)*p.rounds))
}

// measure opens the subjects, and gives all of them a turn in each round.
func (p part) measure(rounds int, length size) (results, error) {
	dir, err := os.MkdirTemp("", "shadowlimit-bench")
	if err != nil {
		return nil, err
	}

	defer os.RemoveAll(dir)
	s := &site{size: length, dir: dir}
	defer s.close()

	measures, measured := make([]measure, len(p.subjects)), results{}
	for i, subject := range p.subjects {
		if measures[i], err = subject.open(s); err != nil {
			return nil, fmt.Errorf("%s: %w", subject.name, err)
		}
		measured[subject.name] = map[string][]float64{}
	}

	for round := range p.times(rounds) {
		fmt.Fprintf(os.Stderr, "bench: %s, round %d of %d\r", p.name, round+1, p.times(rounds))
		if err := p.round(round, measures, measured); err != nil {
			return nil, err
		}
	}
	return measured, nil
}

// round gives each subject a turn. Each round begins with another one, so that none always follows the same.
func (p part) round(round int, measures []measure, into results) error {
	for i := range p.subjects {
		at := (i + round) % len(p.subjects)

		// What the last subject has left behind is not collected at the cost of this one.
		runtime.GC()
		numbers, err := measures[at]()
		if err != nil {
			return fmt.Errorf("%s: %w", p.subjects[at].name, err)
		}

		for c, column := range p.columns {
			of := into[p.subjects[at].name]
			of[column] = append(of[column], numbers[c])
		}
	}
	return nil
}
