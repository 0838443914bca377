package policies_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

func TestResponseExpression(t *testing.T) {
	line := map[string]string{"status": "429", "limit_req_status": "REJECTED", "odd": "-"}
	field := func(name string) (string, bool) {
		text, ok := line[name]
		return text, ok
	}

	for text, want := range map[string]string{
		"response.status == 429":                      "true",
		"response.status in [429, 503]":               "true",
		"response.status >= 500":                      "false",
		`response.limit_req_status == "REJECTED"`:     "true",
		`response.limit_req_status.startsWith("P")`:   "false",
		`response.missing == "x"`:                     "no such attribute",
		`response.status == 1 || response.none == ""`: "no such attribute",
	} {
		e, err := policies.ParseResponse("--observed", text)
		if err != nil {
			t.Fatal(err)
		}
		denied, err := e.Of(field)
		if got := map[bool]string{true: "true", false: "false"}[denied]; err == nil && got != want ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %t, %v, want %s", text, denied, err, want)
		}
	}

	line["status"] = "-"
	e, _ := policies.ParseResponse("--observed", "response.status == 429")
	if _, err := e.Of(field); err == nil {
		t.Error("a status that is no number has an answer")
	}
}

func TestResponseExpressionRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "want a CEL expression",
		"request.status == 429":    "there are response.status",
		"response.status":          "want bool",
		`response.status == "429"`: "--observed:1:17:",
		`request.path == "/"`:      "request",
		"true":                     "reads nothing",
		"status == 429":            "status",
	} {
		if _, err := policies.ParseResponse("--observed", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
