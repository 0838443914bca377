package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// deniedByDefault reads the answer of most limiters, for a search that is not told what a denial is.
const deniedByDefault = "response.status == 429"

// notInferred are the flags of a comparison. A search looks for one limiter, in memory, and the gate has nothing to judge.
var notInferred = []string{
	"config", "from", "to", "policy", "sweep", "signal-field", "decisions", "html", "require-pass", "store", "redis", "soak", "block",
	"divergence", "newly-denied", "newly-allowed", "extra-load",
}

// inferConflicts refuse the flags that have no effect beside --infer.
func inferConflicts() (list []conflict) {
	for _, name := range notInferred {
		list = append(list, conflict{
			func(c *cli.Context) bool { return c.Bool("infer") && given(c, name) },
			"--infer searches the log's limiter and compares none: leave out --" + name, replayHint,
		})
	}
	return list
}

// infer searches the limiter that explains the log's denials.
func (r *replayer) infer(ctx context.Context) (*replay.InferReport, error) {
	s, err := r.subject()
	if err != nil {
		return nil, err
	}
	taken, err := r.take(ctx, s)
	if err != nil {
		return nil, err
	}
	r.broken = taken.broken

	report, err := replay.Infer(ctx, s.comparisons()[0].events, func(judged, of int) {
		r.bar.show("trying limiters", int64(judged), int64(of))
	})
	if err != nil {
		return nil, fmt.Errorf("--infer: %w", err)
	}
	report.SkippedLines, report.Warnings = taken.skipped, taken.warnings
	return report, nil
}
