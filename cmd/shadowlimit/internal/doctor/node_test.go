package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestCheckup(t *testing.T) {
	noperm := errors.New("NOPERM this user has no permissions to run the 'info' command")
	hello := func(s ...string) *node { return &node{hello: pairs(s)} }
	info := func(s ...string) *node { return &node{info: pairs(s)} }

	tests := []struct {
		why   string
		check func(*node) Finding
		node  *node
		level string
		want  string
	}{
		{"new", (*node).version, hello("server", "redis", "version", "8.10.1"), fine, "redis 8.10.1"},
		{"another maker's", (*node).version, hello("server", "valkey", "version", "9.0.0"), fine, "valkey 9.0.0"},
		{"the first without a loss", (*node).version, hello("version", "7.0.0"), fine, ""},
		{"something is lost", (*node).version, hello("version", "6.2.14"), warning, "before 7.0"},
		{"the oldest", (*node).version, hello("version", "6.0.16"), warning, "before 7.0"},
		{"too old by a little", (*node).version, hello("version", "5.9"), problem, "not supported"},
		{"too old by much", (*node).version, hello("version", "5.4"), problem, "not supported"},
		{"not told", (*node).version, hello(), warning, "could not be checked"},
		{"a primary", (*node).role, hello("role", "master"), fine, "primary"},
		{"a replica", (*node).role, hello("role", "replica"), problem, "replica"},
		{"a node given as a server", (*node).role, hello("role", "master", "mode", "cluster"), problem, "single server"},
		{
			"a node of a cluster", (*node).role, &node{cluster: true, hello: pairs([]string{"role", "master", "mode", "cluster"})},
			fine, "primary",
		},
		{"a sentinel", (*node).role, hello("mode", "sentinel"), problem, "sentinel"},
		{"the best policy", (*node).eviction, info("maxmemory", "1", "maxmemory_policy", "noeviction"), fine, "right"},
		{
			"drops nothing yet", (*node).eviction, info("maxmemory", "0", "maxmemory_policy", "allkeys-lru"), warning,
			"once that is set",
		},
		{
			"drops everything", (*node).eviction, info("maxmemory", "1", "maxmemory_policy", "allkeys-random"),
			problem, "any key",
		},
		{
			"drops records", (*node).eviction, info("maxmemory", "1", "maxmemory_policy", "volatile-ttl"), warning,
			"keeps stages",
		},
		{
			"would drop records", (*node).eviction, info("maxmemory", "0", "maxmemory_policy", "volatile-ttl"), fine,
			"nothing",
		},
		{"not permitted", (*node).eviction, &node{infoErr: noperm}, warning, "'info'"},
		{"no bound", (*node).memory, info("used_memory", "9", "maxmemory", "0"), fine, "not set"},
		{"roomy", (*node).memory, info("used_memory", "8", "maxmemory", "10"), fine, ""},
		{"nearly full", (*node).memory, info("used_memory", "9", "maxmemory", "10"), warning, "soon"},
		{"full", (*node).memory, info("used_memory", "10", "maxmemory", "10"), problem, "refused"},
		{
			"full of what it may drop", (*node).memory,
			info("used_memory", "10", "maxmemory", "10", "maxmemory_policy", "allkeys-lfu"), fine, "",
		},
		{"not told", (*node).memory, info(), warning, "could not be checked"},
	}

	for _, tt := range tests {
		f := tt.check(tt.node)
		if f.Level != tt.level || !strings.Contains(f.Message, tt.want) || f.Level == problem && f.Fix == "" {
			t.Errorf("%s: %+v, want %s with %q", tt.why, f, tt.level, tt.want)
		}
	}
}

func pairs(list []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}

// A script that calls a command which doctor does not try would need a right that the minimal
// rights lack.
func TestRightsCoverTheScripts(t *testing.T) {
	files, err := filepath.Glob("../../../../*/*.lua")
	more, err2 := filepath.Glob("../../../../internal/*/*.lua")
	if err := errors.Join(err, err2); err != nil || len(files) == 0 || len(more) == 0 {
		t.Fatal(files, more, err)
	}

	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		for _, match := range regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllStringSubmatch(string(text), -1) {
			command := strings.ToLower(match[1])
			if !slices.ContainsFunc(rights, func(r right) bool { return r.command == command }) {
				t.Errorf("%s calls %s", file, command)
			}
		}
	}
}
