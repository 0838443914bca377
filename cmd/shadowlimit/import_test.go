package main

import (
	"strings"
	"testing"
)

func TestImport(t *testing.T) {
	const text = `limit_req_zone $binary_remote_addr zone=one:1m rate=5r/s;
server { location /api { limit_req zone=one burst=10 nodelay; limit_req_status 429; } }
`

	for _, i := range []invocation{
		{
			name: "a file", args: []string{"import", "nginx", "FILE", "--name", "edge"},
			out: []string{
				"# Not carried over:", "#   FILE:2: limit_req_status 429: ", "name: edge\n", "# FILE:2: limit_req zone=one burst=10 nodelay",
				"- name: one\n", "authoritative: { algorithm: token_bucket, limit: 5, window: 1s, burst: 11 }",
			},
			talk: []string{"FILE:2: limit_req_status 429: the status is the service's", "1 policy imported, and 1 part not carried over"},
		},
		{
			name: "JSON", args: []string{"import", "nginx", "FILE", "-o", "json"},
			out: []string{
				`"name": "one"`, `"file": "FILE"`, `"line": 2`, `"authoritative": "token_bucket:5/1s:burst=11"`,
				`"left_out": [`, `"what": "limit_req_status 429"`, `"why": "`, `"policy_file": "# From FILE`,
			},
		},
		{name: "no file", args: []string{"import", "nginx"}, status: exitUsage, talk: []string{"import needs a peer and its files"}},
		{
			name: "no peer", args: []string{"import", "nginy", "FILE"}, status: exitUsage,
			talk: []string{`no importer for "nginy": did you mean nginx?`},
		},
		{
			name: "a file that is not there", args: []string{"import", "nginx", "FILE.not"}, status: exitFailure,
			talk: []string{"shadowlimit: FILE.not: no such file or directory"},
		},
		{
			name: "a folder", args: []string{"import", "nginx", "/"}, status: exitFailure,
			talk: []string{"shadowlimit: /: no regular file: name the files themselves"},
		},
		{
			name: "no map", args: []string{"import", "nginx", "FILE", "--map", "x"}, status: exitUsage,
			talk: []string{"want NAME=EXPRESSION", "hint: such as"},
		},
		{
			name: "a map of nothing", args: []string{"import", "nginx", "FILE", "--map", "x=request.ip"}, status: exitUsage,
			talk: []string{"--map x has no effect: no part of the configuration is sent a value of that name"},
		},
		{
			name: "no name", args: []string{"import", "nginx", "FILE", "--name", "my shop"}, status: exitUsage,
			talk: []string{"--name my shop: want 1 to 100 letters"},
		},
	} {
		i.check(t, write(t, "nginx.conf", []byte(text)))
	}
}

// A configuration without a limit is no success, and says why.
func TestImportOfNothing(t *testing.T) {
	file := write(t, "nginx.conf", []byte("limit_conn addr 10;\n"))
	for format, out := range map[string]string{"text": "", "json": `"policies": [],`} {
		status, got, talk := shell(t, "", "import", "nginx", file, "-o", format)
		if status != exitFailure || !strings.Contains(got, out) || !strings.Contains(talk, "no limit can be carried over") {
			t.Errorf("status %d: %s%s", status, got, talk)
		}
	}

	empty := write(t, "nginx.conf", []byte("events {}\n"))
	if status, _, talk := shell(t, "", "import", "nginx", empty); status != exitFailure || !strings.Contains(talk, "limits nothing") {
		t.Errorf("status %d: %s", status, talk)
	}
}

// A group is one policy in the count, as validate counts, and a member says in JSON which group has it.
func TestImportOfAGroup(t *testing.T) {
	const text = "plugins: [{ name: rate-limiting, config: { second: 5, year: 100, limit_by: ip } }, { name: own }]\n"
	file := write(t, "kong.yaml", []byte(text))
	status, out, talk := shell(t, "", "import", "kong", file)
	if status != exitOK || !strings.Contains(talk, "1 policy imported") || !strings.Contains(out, "group: { name: second-year }") {
		t.Errorf("status %d: %s%s", status, out, talk)
	}
	if status, out, talk := shell(t, "", "validate", write(t, "p.yaml", []byte(out))); !strings.Contains(out, "valid, 1 policy for kong") {
		t.Errorf("status %d: %s%s", status, out, talk)
	}

	_, out, _ = shell(t, "", "import", "kong", file, "-o", "json")
	for _, want := range []string{`"name": "second-year"`, `"charge": "all_or_nothing"`, `"authoritative": "fixed_window:100/year"`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s lacks %s", out, want)
		}
	}
}

// What is imported is valid for the other commands.
func TestImportIsValid(t *testing.T) {
	status, out, talk := shell(t, "", "import", "nginx", "../../internal/importer/testdata/nginx/shop.conf")
	if status != exitOK {
		t.Fatalf("status %d: %s", status, talk)
	}
	file := write(t, "policies.yaml", []byte(out))
	if status, out, talk := shell(t, "", "validate", file); status != exitOK || !strings.Contains(out, "valid, 6 policies for nginx") {
		t.Errorf("status %d: %s%s", status, out, talk)
	}
}
