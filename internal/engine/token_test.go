package engine

import (
	"fmt"
	"testing"
)

// What is remembered of tokens is bounded.
func TestUsedTokensAreBounded(t *testing.T) {
	var u usedTokens
	for i := range mostUsed + 10 {
		if !u.first(fmt.Sprint(i)) {
			t.Fatalf("token %d is not new", i)
		}
	}
	if len(u.known) != mostUsed || !u.first("0") || u.first(fmt.Sprint(mostUsed)) {
		t.Errorf("%d tokens are remembered, want the last %d", len(u.known), mostUsed)
	}
}
