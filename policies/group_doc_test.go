package policies

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The document lists what a group has once, as agree does.
func TestWhatAGroupHasOnceIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "The first member gives ")
	list, _, found := strings.Cut(rest, " for the whole group")
	if !found {
		t.Fatal(`policies.md has no sentence "The first member gives ... for the whole group"`)
	}

	var named []string
	for i, word := range strings.Split(list, "`") {
		if i%2 == 1 {
			named = append(named, word)
		}
	}
	if want := append([]string{"charge"}, shared...); !slices.Equal(named, want) {
		t.Errorf("the sentence \"The first member gives ...\" of policies.md names %q, want %q", named, want)
	}
}
