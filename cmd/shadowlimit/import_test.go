package main

import (
	"strings"
	"testing"
)

func TestImport(t *testing.T) {
	const text = `limit_req_zone $binary_remote_addr zone=one:1m rate=5r/s;
server { location /api { limit_req zone=one burst=10 nodelay; limit_conn addr 3; } }
`

	for _, i := range []invocation{
		{
			name: "a file", args: []string{"import", "nginx", "FILE", "--name", "edge"},
			out: []string{
				"#   FILE:2: limit_conn addr 3: ", "name: edge\n", "# FILE:2: limit_req zone=one burst=10 nodelay", "- name: one\n",
				"# where: server, location /api", "when: false\n", "authoritative: { algorithm: token_bucket, limit: 5, window: 1s, burst: 11 }",
			},
			talk: []string{"FILE:2: limit_conn addr 3: ", "1 policy imported", "1 part"},
		},
		{
			name: "JSON", args: []string{"import", "nginx", "FILE", "-o", "json"},
			out: []string{
				`"name": "one"`, `"file": "FILE"`, `"line": 2`, `"where": [`, `"authoritative": "token_bucket:5/1s:burst=11"`,
				`"left_out": [`, `"what": "limit_conn addr 3"`, `"why": "`, `"policy_file": "# `,
			},
		},
		{name: "no file", args: []string{"import", "nginx"}, status: exitUsage, talk: []string{"import needs"}},
		{
			name: "no peer", args: []string{"import", "nginy", "FILE"}, status: exitUsage,
			talk: []string{`"nginy": did you mean nginx?`},
		},
		{
			name: "a peer without an importer", args: []string{"import", "express-rate-limit"}, status: exitUsage,
			talk: []string{"fixed_window_anchored:LIMIT/WINDOWMS"},
		},
		{
			name: "the beginning of its name", args: []string{"import", "Spring", "FILE"}, status: exitUsage,
			talk: []string{"token_bucket:REPLENISHRATE/1s:burst=BURSTCAPACITY"},
		},
		{
			name: "a file that is not there", args: []string{"import", "nginx", "FILE.not"}, status: exitFailure,
			talk: []string{"FILE.not: no such file"},
		},
		{
			name: "a folder", args: []string{"import", "nginx", "/"}, status: exitFailure,
			talk: []string{"/: no regular file"},
		},
		{
			name: "no name", args: []string{"import", "nginx", "FILE", "--name", "my shop"}, status: exitUsage,
			talk: []string{"--name my shop: "},
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
		if status != exitFailure || !strings.Contains(got, out) || !strings.Contains(talk, "no limit becomes a policy") {
			t.Errorf("status %d: %s%s", status, got, talk)
		}
	}

	empty := write(t, "nginx.conf", []byte("events {}\n"))
	if status, _, talk := shell(t, "", "import", "nginx", empty); status != exitFailure || !strings.Contains(talk, "no limit becomes a policy") {
		t.Errorf("status %d: %s", status, talk)
	}
}

// What is imported is valid for the other commands, which warn of what is off.
func TestImportIsValid(t *testing.T) {
	status, out, talk := shell(t, "", "import", "nginx", "../../internal/importer/testdata/nginx/limit_req.conf")
	if status != exitOK {
		t.Fatalf("status %d: %s", status, talk)
	}
	file := write(t, "policies.yaml", []byte(out))
	if status, out, talk := shell(t, "", "validate", file); status != exitOK || !strings.Contains(out, "valid, 5 policies for nginx") {
		t.Errorf("status %d: %s%s", status, out, talk)
	}
}
