// Command bench compares shadowlimit with limiters of other libraries in the same run, and writes the first table of
// docs/performance.md. It is a module of its own, so that users of the library never download those.
//
//	make bench                       # all parts, 15 rounds, a few minutes; writes the rows
//	make bench ROUNDS=1              # proves that everything runs, and writes nothing
//	cd bench && go run . -parts redis,memory -rounds 9
//
// A part is a list of subjects. In each round every subject has its turn, so that a machine that grows slower meanwhile is slower for
// all of them. A ratio is taken within a round; the table has the median of the rounds, and the quartiles in brackets.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// parts are the comparisons, in the order of docs/performance.md.
var parts = []part{redisPart, servicePart, memoryPart, middlewarePart, replayPart}

// fewest is how many rounds have quartiles that say anything. The rows of fewer rounds are not written.
const fewest = 5

func main() {
	// The service of the part "service" is this program, in a process of its own.
	if len(os.Args) == 4 && os.Args[1] == serveCommand {
		fail(serve(os.Args[2], os.Args[3]))
		return
	}

	rounds := flag.Int("rounds", 15, "how often each subject has its turn")
	names := flag.String("parts", "all", "what to compare: redis, service, memory, middleware, replay, with commas between them")
	page := flag.String("write", "", "the page whose rows are written, such as ../docs/performance.md")
	flag.Parse()
	fail(run(*rounds, *names, *page))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures parts and prints their tables.
func run(rounds int, names, page string) error {
	chosen, err := partsOf(names)
	if err != nil {
		return err
	}

	// What proves no more than that it runs needs no long slices.
	size := full
	if rounds < fewest {
		size, page = short, ""
		fmt.Printf("bench: %d rounds are too few for quartiles: slices are short, and no row is written\n", rounds)
	}

	for _, p := range chosen {
		measured, err := p.measure(rounds, size)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}

		rows := p.rows(measured)
		fmt.Printf("\n%s\n%s", p.numbers(measured), rows)
		if page != "" {
			if err := write(page, p.name, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

func partsOf(names string) (chosen []part, err error) {
	if names == "all" {
		return parts, nil
	}

	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, errors.New("no part is called " + name + "; see bench -h")
		}
		chosen = append(chosen, parts[i])
	}
	return chosen, nil
}
