package grpclimit

import (
	"maps"
	"testing"

	"google.golang.org/grpc/metadata"
)

// Fields that are used again are those of their call and no others, whatever the calls before had.
func TestFieldsUsedAgain(t *testing.T) {
	reused := newFields()
	for _, call := range [][]string{
		{"ratelimit-policy", "ratelimit"},
		{"ratelimit-policy", "ratelimit"},
		{"retry-after", "ratelimit-policy", "ratelimit"},
		{"ratelimit"},
		{"retry-after"},
		{},
		{"ratelimit-policy", "ratelimit"},
	} {
		want := metadata.MD{}
		for i, name := range call {
			value := string(rune('a' + i))
			reused.add(name, value)
			want[name] = []string{value}
		}

		if got := reused.metadata(); !maps.EqualFunc(got, want, func(a, b []string) bool { return len(a) == 1 && a[0] == b[0] }) {
			t.Errorf("%v, want %v", got, want)
		}
		reused.empty()
	}
}
