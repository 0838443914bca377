package policies

import (
	"strings"
	"testing"
)

// A message that sends an author to another section is right: the field is there.
func TestHomesHaveTheirFields(t *testing.T) {
	for i := range homes {
		home := &homes[i]
		sections := map[string]string{
			"the file": "FIELD: 1\n" + soundFile, "a policy": strings.Replace(soundFile, "key: a", "key: a, FIELD: 1", 1),
			"role":      strings.Replace(soundFile, "window: 1m", "window: 1m, FIELD: 1", 1),
			"store":     strings.Replace(soundFile, "window: 1m", "window: 1m, store: { FIELD: 1 }", 1),
			"promotion": soundFile + "promotion: { FIELD: 1 }\n",
		}
		for _, name := range home.fields {
			_, err := Load("p.yaml", []byte(strings.ReplaceAll(sections[home.section], "FIELD", name)))
			if err != nil && strings.Contains(err.Error(), "has no field") {
				t.Errorf("%s: %v", home.section, err)
			}
		}
	}

	// A field of another section is sent home.
	_, err := Load("p.yaml", []byte(strings.Replace(soundFile, "window: 1m", "window: 1m, sync: 1s, mode: manual", 1)))
	for _, want := range []string{"a field of a side's store", "a field of a promotion"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

const soundFile = "version: 1\nname: test\npolicies:\n" +
	"  - { name: a, key: a, authoritative: { algorithm: gcra, limit: 1, window: 1m } }\n"

// A secret that stands where none belongs is not shown, because logs of builds keep what is shown.
func TestProblemsShowNoSecret(t *testing.T) {
	for _, line := range []string{
		"password: hunter2", "redis_password : 'hunter2'", "  - SECRET: hunter2", "api_key: hunter2", "redis: redis://me:hunter2@host:6379",
	} {
		_, err := Load("p.yaml", []byte(soundFile+line+"\n"))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", line, err)
		}
	}
}
