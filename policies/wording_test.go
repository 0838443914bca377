package policies_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A request that people have written is refused in their words, with a remedy.
func TestRequestsThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		`{method: "GET"}`:       `write names and texts in double quotes, such as {"method": "GET"}`,
		`{'method': 'GET'}`:     "not JSON at byte 2",
		`{"metod": "GET"}`:      "unknown field \"metod\": did you mean method?",
		`{"time": "yesterday"}`: `yesterday is no instant: want one such as 2026-01-31T12:00:00Z`,
	} {
		if _, err := policies.ParseRequest([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Another name is another namespace, which loses everything.
func TestDifferenceOfNames(t *testing.T) {
	before, after := load(t, onePolicy("key: request.ip")), load(t, strings.Replace(onePolicy("key: request.ip"), "name: test", "name: other", 1))
	list := policies.Difference(before, after)
	if len(list) != 1 || !list[0].NewEpoch || !strings.Contains(list[0].String(), "test -> other: another namespace") {
		t.Errorf("%v", list)
	}
}

// What a file holds does not move the cursor of who reads the message.
func TestProblemsAreShownWithoutControlCharacters(t *testing.T) {
	_, err := policies.Load("p.yaml", []byte("version: \"\\x1b[31m\" # \x1b[31m\u009b\nname: a\n"))
	if err == nil || strings.ContainsAny(strings.ReplaceAll(err.Error(), "\n", ""), "\x1b\u009b") {
		t.Errorf("%q", err)
	}
}
