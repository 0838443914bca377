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
