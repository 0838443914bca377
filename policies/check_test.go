package policies_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

// shortSoak is a check that finds every soak below a day.
func shortSoak(severity string) policies.Check {
	return func(p policies.Promotion) []policies.Finding {
		if p.Soak >= 24*time.Hour {
			return nil
		}
		return []policies.Finding{{Severity: severity, Fields: []string{"soak"}, Message: "too short"}}
	}
}

// A check sees the fields that a section inherits, and a finding stands where its
// field stands. A field that a policy inherits is found once.
func TestChecksOfPromotion(t *testing.T) {
	tests := []struct {
		name, file, policy string
		want               []string // line:column
	}{
		{"named by the policy", "soak: 30h", "soak: 1h", []string{"6:23"}},
		{"named by the file", "soak: 1h", "mode: manual", []string{"9:19"}},
		{"named by both", "soak: 1h", "soak: 2h", []string{"6:23", "9:19"}},
		{"overridden, and long enough", "soak: 1h", "soak: 40h", []string{"9:19"}},
		{"named by neither", "mode: manual", "mode: manual", []string{"6:16", "9:12"}},
	}
	for _, tt := range tests {
		text := onePolicy("key: request.ip\n    promotion: {"+tt.policy+"}") + "promotion: {" + tt.file + "}\n"
		set, err := policies.Load("p.yaml", []byte(text), shortSoak(policies.SeverityWarning))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}

		var got []string
		for _, w := range set.Warnings {
			got = append(got, fmt.Sprintf("%d:%d", w.Line, w.Column))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: found at %v, want %v", tt.name, got, tt.want)
		}
	}
}

// An error of a check is an error of the file.
func TestAnErrorOfACheckRefusesTheFile(t *testing.T) {
	text := onePolicy("key: request.ip\n    promotion: {soak: 1h}")

	_, err := policies.Load("p.yaml", []byte(text), shortSoak(policies.SeverityError))
	var problems *policies.Problems
	if !errors.As(err, &problems) || len(problems.List) != 1 || problems.List[0].Column != 23 {
		t.Errorf("got %v, want one problem at the soak", err)
	}
}
