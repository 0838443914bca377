package status_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// shownElsewhere are the fields of a policy that a form of the report leaves out, with the reason.
var shownElsewhere = map[string]map[string]string{
	"WriteText": {
		"Epoch":     "a hash: no operator compares it by eye, and instances of another epoch have a note",
		"HarmScore": "at 12 it is the alarm, which the text shows; the page has room for the number",
	},
	"the page": {
		"Epoch": "a hash: no operator compares it by eye, and instances of another epoch have a note",
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

// A field that is added to a policy's report is for people, too, and not only in its JSON.
func TestPeopleSeeEveryFieldOfAPolicy(t *testing.T) {
	var p status.Policy
	values := map[string]string{}
	fillPolicy(t, reflect.ValueOf(&p).Elem(), values)
	p.Stage, p.At = promotion.Canary, now // only a canary shows its percentage
	values["Stage"] = string(promotion.Canary)
	half := 0.5 // the numbers of harmed keys stand beside the ratios
	p.Ratios.NewlyDenied, p.Ratios.NewlyAllowed = &half, &half

	var text strings.Builder
	report := status.Report{Policies: []status.Policy{p}}
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	body := get(status.Page(always(p)), "/status", "").Body.String()
	_, page, _ := strings.Cut(body, "</style>") // the style has numbers, too

	for form, shown := range map[string]string{"WriteText": text.String(), "the page": page} {
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
