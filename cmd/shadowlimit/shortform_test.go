package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func TestHelpOfReplayNamesEveryAlgorithm(t *testing.T) {
	separates := func(r rune) bool { return strings.ContainsRune(" \n,:/", r) }
	words := strings.FieldsFunc(replayCommand(streams{}).Description, separates)
	for _, a := range algorithms.All {
		if !slices.Contains(words, a.Name()) {
			t.Errorf("the help of replay does not name the limiter %s", a.Name())
		}
	}
}

// A short form is written as it is read: a report that names a limiter can be given back to replay.
func TestShortFormsAreReadAsTheyAreWritten(t *testing.T) {
	for _, form := range []string{"fixed_window:5/1m", "token_bucket:10/1s:burst=20", "sliding_window_log:3/7d"} {
		side, err := parseSide("from", form)
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		if got := side.Algorithm.Name() + ":" + side.Limit.String(); got != form {
			t.Errorf("%s is written %s", form, got)
		}
	}
}
