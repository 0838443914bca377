package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// filled gives every field of a struct a value of its own. Pointers and structs stay as they are.
func filled(t *testing.T, of any) {
	t.Helper()
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(fmt.Sprintf("text%d", i))
		case reflect.Int64:
			f.SetInt(int64(700 + i))
		case reflect.Pointer, reflect.Struct:
		default:
			t.Fatalf("no value for a field of kind %s: add one here", f.Kind())
		}
	}
}

// A field that is added to an explanation is for people, too, and not only in its JSON.
func TestExplainPrintsEveryField(t *testing.T) {
	var charge policies.ExplainedCharge
	filled(t, &charge)
	charge.Candidate = &policies.ExplainedSide{}
	filled(t, charge.Candidate)
	filled(t, &charge.Authoritative)
	charge.Authoritative.Error = "" // an error takes the place of the limit
	var skipped policies.Skipped
	filled(t, &skipped)

	var text strings.Builder
	e := policies.Explanation{Charges: []policies.ExplainedCharge{charge}, Skipped: []policies.Skipped{skipped}}
	if err := writeExplanation(&text, &e); err != nil {
		t.Fatal(err)
	}

	lines := strings.Split(text.String(), "\n")
	for _, part := range []struct {
		line  string
		value reflect.Value
	}{
		{lines[0], reflect.ValueOf(charge)},
		{lines[1], reflect.ValueOf(charge.Authoritative)},
		{lines[2], reflect.ValueOf(policies.ExplainedSide{Error: charge.Candidate.Error})},
		{lines[3], reflect.ValueOf(skipped)},
	} {
		for i := range part.value.NumField() {
			f := part.value.Field(i)
			if (f.Kind() == reflect.String || f.Kind() == reflect.Int64) && !f.IsZero() && !strings.Contains(part.line, fmt.Sprint(f)) {
				t.Errorf("%s.%s is not in the line %q", part.value.Type(), part.value.Type().Field(i).Name, part.line)
			}
		}
	}
}
