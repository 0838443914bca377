package status_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// shownElsewhere are the fields of a policy that a form of the report leaves out, with the reason.
var shownElsewhere = map[string]map[string]string{
	"WriteText": {
		"Fingerprint": "a hash: no operator compares it by eye, and instances of another fingerprint have a note",
		"HarmScore":   "at 12 it is the alarm, which the text shows; the page has room for the number",
		"JudgedAge":   "in the words of the line that names the leader",
	},
	"the page": {
		"Fingerprint": "a hash: no operator compares it by eye, and instances of another fingerprint have a note",
		"JudgedAge":   "in the words of the line that names the leader",
	},
}

// fillPolicy gives every string and number of a policy, and of the structs that it embeds, a value of its own, and
// returns the values by the names of the fields.
func fillPolicy(t *testing.T, v reflect.Value, values map[string]string) {
	t.Helper()

	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		n := 701 + len(values) // three digits: no form groups them
		switch {
		case field.Anonymous:
			fillPolicy(t, f, values)
			continue
		case f.Kind() == reflect.String:
			f.SetString(fmt.Sprintf("text%d", n))
		case f.CanInt():
			f.SetInt(int64(n))
		case f.CanFloat():
			f.SetFloat(float64(n))
		default:
			continue // a list or a struct, which has tests of its own
		}
		values[field.Name] = fmt.Sprint(f)
	}
}

// hostile gives every string of a value, and of the structs, lists and pointers in it, control characters.
func hostile(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			hostile(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			hostile(v.Index(i))
		}
	case reflect.String:
		v.SetString("a\x1b[2J\nb")
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanSet() {
				hostile(f)
			}
		}
	}
}

// What the store holds may be another program's work: no text of it steers a terminal, or makes a line of its own.
func TestNoTextSteersATerminal(t *testing.T) {
	var p status.Policy
	hostile(reflect.ValueOf(&p).Elem())
	p.At = now

	for line := range strings.Lines(textOf(t, p)) {
		if strings.Contains(line, "\x1b") || strings.HasPrefix(line, "b") {
			t.Errorf("the text has the line %q: pass free text through humanize.Printable, and sentences through humanize.Visible", line)
		}
	}
}

// What the store holds may be another program's work: no text of it brings control characters to the page.
func TestPageHasNoControlCharacters(t *testing.T) {
	p := goldenPolicy(t)
	hostile(reflect.ValueOf(&p).Elem())
	here := status.Here{Policies: []status.Enforcement{{}}}
	hostile(reflect.ValueOf(&here).Elem())

	for form, source := range map[string]status.Source{"a report": always(p), "an outage": silent(here)} {
		if text := get(status.Page(source), "/status?format=text", "").Body.String(); strings.Contains(text, "\x1b") {
			t.Errorf("%s: the text is %q: pass it through visible or printable", form, text)
		}
		answer := get(status.Page(source), "/status", "text/html")
		body := answer.Body.String()
		if answer.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", form, answer.Code, body)
		}
		head, rest, _ := strings.Cut(body, "<style>") // its lines may begin with anything
		_, rest, _ = strings.Cut(rest, "</style>")
		for line := range strings.Lines(head + rest) {
			if strings.Contains(line, "\x1b") || strings.HasPrefix(line, "b") {
				t.Errorf("%s: the page has the line %q: pass it through visible or printable", form, line)
			}
		}
	}
}

// silent is a source whose store does not answer.
func silent(here status.Here) status.Source {
	return status.Source{
		Report: func(context.Context) (status.Report, error) { return status.Report{}, errors.New("silent") },
		Here:   func() status.Here { return here },
	}
}

// A field that is added for an outage is shown in one.
func TestPageOfAnOutageShowsEveryField(t *testing.T) {
	var e status.Enforcement
	values := map[string]string{}
	fillPolicy(t, reflect.ValueOf(&e).Elem(), values)
	delete(values, "Stage") // Describe has it in words

	page := get(status.Page(silent(status.Here{Policies: []status.Enforcement{e}})), "/status", "text/html").Body.String()
	for name, value := range values {
		if !strings.Contains(page, value) {
			t.Errorf("the page does not show status.Enforcement.%s: add it to the list of an outage on page.html", name)
		}
	}
}

// A field that is added to a policy's report is for people, too, and not only in its JSON.
func TestPeopleSeeEveryFieldOfAPolicy(t *testing.T) {
	var p status.Policy
	values := map[string]string{}
	fillPolicy(t, reflect.ValueOf(&p).Elem(), values)
	p.Stage, p.At = stages.Canary, now // only a canary shows its percentage
	values["Stage"] = string(stages.Canary)
	half := 0.5 // the numbers of harmed keys stand beside the ratios
	p.Ratios.NewlyDenied, p.Ratios.NewlyAllowed = &half, &half

	body := get(status.Page(always(p)), "/status", "").Body.String()
	_, page, _ := strings.Cut(body, "</style>") // the style has numbers, too

	for form, shown := range map[string]string{"WriteText": textOf(t, p), "the page": page} {
		for name, value := range values {
			_, excepted := shownElsewhere[form][name]
			switch found := strings.Contains(shown, value); {
			case !found && !excepted:
				t.Errorf("%s does not show status.Policy.%s: show it, or write the reason why not into shownElsewhere", form, name)
			case found && excepted:
				t.Errorf("%s shows status.Policy.%s: remove its exception from shownElsewhere", form, name)
			}
		}
	}
}

// otherForms are the fields that are no text and no number, and that a form of the report leaves out, with the reason.
var otherForms = map[string]map[string]string{
	"WriteText": {
		"Canary": "the steps to come; the stage says which one it is",
	},
}

// A flag, a list or a pointer that is added to a policy's report is for people, too: without its value both forms differ.
func TestPeopleSeeEveryOtherFieldOfAPolicy(t *testing.T) {
	forms := map[string]func(status.Policy) string{
		"WriteText": func(p status.Policy) string { return textOf(t, p) },
		"the page":  func(p status.Policy) string { return get(status.Page(always(p)), "/status", "").Body.String() },
	}

	full := goldenPolicy(t)
	for _, field := range reflect.VisibleFields(reflect.TypeOf(full)) {
		switch field.Type.Kind() {
		case reflect.Bool, reflect.Slice, reflect.Pointer, reflect.Map:
		default:
			continue
		}

		without := goldenPolicy(t)
		reflect.ValueOf(&without).Elem().FieldByIndex(field.Index).SetZero()
		for form, show := range forms {
			_, excepted := otherForms[form][field.Name]
			if shown := show(without) != show(full); shown == excepted {
				t.Errorf("%s shows status.Policy.%s: %t, and otherForms has a reason why not: %t: show it, or write the reason",
					form, field.Name, shown, excepted)
			}
		}
	}
}

// notReported are the fields of a Spec that policyOf does not carry to the report, with the reason.
var notReported = map[string]string{
	"Fingerprint":          "Fingerprint is the state's: a Spec of another one has been announced and is not in use yet",
	"Config.MinDenials":    "a condition needs them",
	"Config.MinDeniedKeys": "a condition needs them",
	"Config.Soak":          "a condition needs it",
	"Config.Divergence":    "Gate.Divergence.Threshold is the threshold that was judged by",
	"Config.NewlyDenied":   "Gate.NewlyDenied.Threshold is the threshold that was judged by",
	"Config.NewlyAllowed":  "Gate.NewlyAllowed.Threshold is the threshold that was judged by",
	"Config.ExtraLoad":     "Gate.ExtraLoad.Threshold is the threshold that was judged by",
	"Config.Protect":       "a condition names the key that loses too much",

	"Apart":  "Gate.DisturbedBy says what it does",
	"Window": "Gate.DisturbedBy says until when it disturbs the time",
	"Copied": "Gate.DisturbedBy says that a side begins fresh",

	"CandidateStore":     "StoreUnreachable says that it does not answer, and the golden policy has another stage",
	"AsksStore":          "StoreUnreachable says that the service's own Redis does not answer, and the golden policy has another store",
	"Config.Dwell":       "a condition needs it",
	"Config.Change.Days": "a condition says when it opens",
	"Config.Change.From": "a condition says when it opens",
	"Config.Change.To":   "a condition says when it opens",
	"Config.Change.Zone": "a condition says when it opens",
}

// eachField calls do with every field of a struct that is no struct itself, and with its name.
func eachField(v reflect.Value, prefix string, do func(name string, f reflect.Value)) {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		name := prefix + field.Name
		switch {
		case field.Anonymous:
			eachField(f, prefix, do)
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[time.Time]():
			eachField(f, name+".", do)
		default:
			do(name, f)
		}
	}
}

// change gives a field a value that it does not have.
func change(t *testing.T, f reflect.Value) {
	t.Helper()
	switch {
	case f.Kind() == reflect.String:
		f.SetString("text701")
	case f.Kind() == reflect.Bool:
		f.SetBool(!f.Bool())
	case f.CanInt():
		f.SetInt(f.Int() + 701)
	case f.CanFloat():
		f.SetFloat(f.Float()/2 + 0.1)
	case f.Kind() == reflect.Array:
		change(t, f.Index(0))
	case f.Kind() == reflect.Struct:
		for i := range f.NumField() {
			change(t, f.Field(i))
		}
	case f.Kind() == reflect.Map:
		f.Set(reflect.ValueOf(map[string]string{"label701": "text701"}))
	case f.Kind() == reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	default:
		t.Fatalf("a field of kind %s: teach change to change it", f.Kind())
	}
}

// A field that is added to what instances announce of a policy is in the report of the policy.
func TestEveryFieldOfASpecReachesTheReport(t *testing.T) {
	here := func() stages.Assessment {
		a := goldenAssessment()
		a.Leader = "" // another instance's series are as they were published
		return a
	}
	before := reportOf(t, here())
	known := map[string]bool{}

	var spec stages.Spec
	eachField(reflect.ValueOf(&spec).Elem(), "", func(name string, _ reflect.Value) {
		known[name] = true
		changed := here()
		eachField(reflect.ValueOf(&changed.Spec).Elem(), "", func(other string, f reflect.Value) {
			if other == name {
				change(t, f)
			}
		})

		_, excepted := notReported[name]
		switch reported := !reflect.DeepEqual(reportOf(t, changed), before); {
		case !reported && !excepted:
			t.Errorf("policyOf does not carry stages.Spec.%s: set a field of status.Policy from it, "+
				"or write the reason why not into notReported", name)
		case reported && excepted:
			t.Errorf("policyOf carries stages.Spec.%s: remove its exception from notReported", name)
		}
	})

	for name := range notReported {
		if !known[name] {
			t.Errorf("notReported names %s, which stages.Spec does not have: remove it", name)
		}
	}
}

// The golden page is the one place where a reviewer sees a change of the page: its policy has a value for every field.
func TestGoldenPolicyHasEveryField(t *testing.T) {
	p := goldenPolicy(t)
	eachField(reflect.ValueOf(&p).Elem(), "", func(name string, f reflect.Value) {
		if f.IsZero() {
			t.Errorf("status.Policy.%s is zero on the golden page: set it in policyOf, and give goldenAssessment or goldenPolicy "+
				"a value that leads to it; then go test ./internal/status -update", name)
		}
	})
}

// notInLine are the fields of an Enforcement that the one line of ?format=text leaves out, with the reason.
var notInLine = map[string]string{
	"Stage":         "Describe has it in words",
	"Authoritative": "a policy has one line: the page has room for the sides",
	"Candidate":     "a policy has one line: the page has room for the sides",
	"Levels":        "a policy has one line: the page has room for them",
	"Fingerprint":   "OtherFile says it in a sentence above the lines",
	"Stored":        "OtherFile says it in a sentence above the lines",
}

// A field that is added for an outage is in the line of ?format=text, too, or a row says why not.
func TestLineOfAnInstanceShowsEveryField(t *testing.T) {
	var e status.Enforcement
	values := map[string]string{}
	fillPolicy(t, reflect.ValueOf(&e).Elem(), values)

	text := get(status.Page(silent(status.Here{Policies: []status.Enforcement{e}})), "/status?format=text", "").Body.String()
	_, line, _ := strings.Cut(text, "\n"+e.Policy+": ")
	line, _, _ = strings.Cut(e.Policy+": "+line, "\n")
	for name, value := range values {
		if _, excepted := notInLine[name]; strings.Contains(line, value) == excepted {
			t.Errorf("status.Enforcement.%s in the line of ?format=text: %t: show it in Enforcement.text (here.go), "+
				"or write the reason into notInLine", name, !excepted)
		}
	}
}
