package importer

import (
	"slices"
	"testing"
)

// An expression for a key says that the policies are for a service that sees requests: other keys are headers then.
func TestEnvoyForAServiceThatSeesRequests(t *testing.T) {
	const text = "domain: d\ndescriptors: [{ key: user, descriptors: [{ key: tenant-id, rate_limit: { unit: hour, requests_per_unit: 6 } }] }]"
	in, err := readFrom(oneFile("f.yaml", text), "envoy", []string{"f.yaml"}, Options{Map: map[string]string{"user": "request.user"}})
	if err != nil {
		t.Fatal(err)
	}

	values := []string{"request.user", `request.headers[?"tenant-id"].orValue("")`}
	for i, v := range in.variables {
		if v.value.text != values[i] {
			t.Errorf("%s: %s, want %s", v.name, v.value.text, values[i])
		}
	}
	const when = `variables.sent_user != "" && variables.sent_tenant_id != ""`
	if got := in.Policies[0].when.text; got != when || len(in.LeftOut) != 1 {
		t.Errorf("when %s, left out %v; want %s, and the header", got, in.LeftOut, when)
	}
}

// Keys are told apart that have one name as variables, or that a descriptor repeats, and two domains are one file.
func TestEnvoyTellsKeysApart(t *testing.T) {
	const limit = "rate_limit: { unit: hour, requests_per_unit: 6 }"
	const text = "domain: d\ndescriptors: [{ key: a-b, " + limit + " }, { key: a_b, " + limit + ",\n" +
		"  descriptors: [{ key: a_b, " + limit + " }] }]\n" +
		"---\ndomain: e\ndescriptors: [{ key: a/b, " + limit + " }]"
	in, err := readFrom(oneFile("f.yaml", text), "envoy", []string{"f.yaml"}, Options{})
	if err != nil || len(in.LeftOut) > 0 {
		t.Fatalf("%v, left out %v", err, in.LeftOut)
	}

	var got []string
	for _, p := range in.Policies {
		got = append(got, p.when.text+" by "+p.key[len(p.key)-1].text)
	}
	want := []string{
		`request.domain == "d" && request.route == "a-b" by variables.sent_a_b`,
		`request.domain == "d" && request.route == "a_b" by variables.sent_a_b_`,
		`request.domain == "d" && request.route == "a_b/a_b#2" by variables.sent_a_b_2`,
		`request.domain == "e" && request.route == "a%2Fb" by variables.sent_a_b__`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
