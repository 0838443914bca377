package policies_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A request that a person has written is refused in the words of JSON, with a remedy.
func TestRequestsThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		`{method: "GET"}`:       `write names and texts in double quotes, such as {"method": "GET"}`,
		`{'method': 'GET'}`:     "not JSON at byte 2",
		`{"metod": "GET"}`:      "unknown field \"metod\": did you mean method?",
		`{"method": "GET"`:      "the JSON ends early: want a whole object",
		" ":                     "the JSON ends early: want a whole object",
		`{"time": "yesterday"}`: `yesterday is no instant: want one such as 2026-01-31T12:00:00Z`,
	} {
		if _, err := policies.ParseRequest([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Another name is another namespace, which loses everything.
func TestDifferenceOfNames(t *testing.T) {
	text := onePolicy("key: request.ip")
	before, after := load(t, text), load(t, strings.Replace(text, "name: test", "name: other", 1))

	list := policies.Difference(before, after)
	if len(list) != 1 || !list[0].NewEpoch || !strings.Contains(list[0].String(), "test -> other: another namespace") {
		t.Errorf("%v", list)
	}
}

// A file cannot move the cursor of the terminal on which its problems are shown.
func TestProblemsAreShownWithoutControlCharacters(t *testing.T) {
	_, err := policies.Load("p.yaml", []byte("version: \"\\x1b[31m\" # \x1b[31m\u009b\nname: a\n"))
	if err == nil || strings.ContainsAny(strings.ReplaceAll(err.Error(), "\n", ""), "\x1b\u009b") {
		t.Errorf("%q", err)
	}
}
