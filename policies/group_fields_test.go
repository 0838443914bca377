package policies_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// ofGroups says of each field of a Policy where a group has it from: its first member, with a line for that one and another line that a
// later member must not have; or no lines, where a group is made of its members or has its own.
var ofGroups = map[string][2]string{
	"Name": {}, "Sides": {}, "Members": {}, "Together": {},
	"OnStoreFailure": {"on_store_failure: deny", "on_store_failure: allow"},
	"OnError":        {"on_error: deny", "on_error: allow"},
	"Promotion":      {"promotion: { dwell: 49h }", "promotion: { dwell: 50h }"},
}

// A field that a group does not take over from its members would have no effect there, in silence.
func TestGroupHasEveryFieldOfAPolicy(t *testing.T) {
	kind := reflect.TypeFor[policies.Policy]()
	for i := range kind.NumField() {
		field := kind.Field(i)
		lines, known := ofGroups[field.Name]
		if !field.IsExported() || known && lines[0] == "" {
			continue
		}
		if !known {
			t.Errorf("Policy.%s: teach it to begin, shared and agree in group.go, and give it a row here", field.Name)
			continue
		}

		const first, later = "    key: request.user\n", "    when: request.method == \"POST\"\n"
		text := strings.Replace(twoZones, first, first+"    "+lines[0]+"\n", 1)
		set, err := policies.Load("policies.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", lines[0], err)
		}
		group := set.Policies[0]
		for _, member := range group.Members {
			has, want := reflect.ValueOf(*group).Field(i).Interface(), reflect.ValueOf(*member).Field(i).Interface()
			if !reflect.DeepEqual(has, want) {
				t.Errorf("%s of a group is %v, and of its member %s %v", field.Name, has, member.Name, want)
			}
		}

		text = strings.Replace(text, later, later+"    "+lines[1]+"\n", 1)
		if _, err := policies.Load("policies.yaml", []byte(text)); err == nil {
			t.Errorf("%s: a later member may contradict the first one by %s", field.Name, lines[1])
		}
	}
}
