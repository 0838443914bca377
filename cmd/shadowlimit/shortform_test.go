package main

import (
	"reflect"
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
// shortForms have every option.
var shortForms = []string{
	"sliding_window_counter:20/10s:phase=first:count_denied", "fixed_window:5/1m:phase=hash", "fixed_window:1000/month",
	"fixed_window:1000/week:count_denied", "fixed_window:9/year", "token_bucket:10/1s:burst=20:refill=1s:forget=11s",
	"gcra:10/1s:refill=250ms", "leaky_bucket:10/1s:burst=5:forget=2s", "sliding_window_log:3/7d:count_denied",
}

// An option that no short form has could not be replayed, and nothing would say so.
func TestEveryOptionHasAShortForm(t *testing.T) {
	options := reflect.TypeFor[algorithms.Options]()
	for i := range options.NumField() {
		if !slices.ContainsFunc(shortForms, func(form string) bool {
			side, err := parseSide("from", form)
			return err == nil && !reflect.ValueOf(side.Limit.Options).Field(i).IsZero()
		}) {
			t.Errorf("no form of shortForms has the option %s: read it in parseOption, and add a form", options.Field(i).Name)
		}
	}
}

func TestShortFormsAreReadAsTheyAreWritten(t *testing.T) {
	for _, form := range shortForms {
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
