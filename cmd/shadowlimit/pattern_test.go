package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The example of a regular expression is matched by it.
func TestExampleOfMatches(t *testing.T) {
	for _, pattern := range []string{
		`\.php$`, `^/api/v[0-9]+/(users|orders)/?$`, `(?i)\.(png|jpe?g)$`, `googlebot`, `^(?:/orders/\d+/bulk$)`, `[^/]+x`, `.\.js`, `a{3}`,
	} {
		if one := exampleOf(pattern); one == "" || !regexp.MustCompile(pattern).MatchString(one) {
			t.Errorf("%s does not match its example %q", pattern, one)
		}
	}
	if one := exampleOf("(?=no RE2"); one != "" {
		t.Errorf("an expression that cannot be read has the example %q", one)
	}
}

// The tests of configurations with regular expressions and networks see each policy match and not match.
func TestInitFindsRequestsOfPatterns(t *testing.T) {
	for peer, configuration := range map[string]string{"nginx": "nginx/shop.conf", "haproxy": "haproxy/edge.cfg"} {
		file := filepath.Join(t.TempDir(), "edge.yaml")
		configuration = filepath.Join("../../internal/importer/testdata", configuration)
		if status, _, talk := shell(t, "", "init", file, "--import", peer, configuration); status != exitOK {
			t.Errorf("%s: status %d: %s", peer, status, talk)
			continue
		}

		status, out, talk := shell(t, "", "test", testsFile(file))
		if status != exitOK || !strings.Contains(out, " 0 failed") || strings.Contains(out, "not seen both") {
			t.Errorf("%s: test ends with %d\n%s%s", peer, status, out, talk)
		}
	}
}
