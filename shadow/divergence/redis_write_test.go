package divergence

import (
	"math"
	"strings"
	"testing"
)

// Of several values that JSON cannot carry, the error names the first.
func TestWritingKeepsTheFirstError(t *testing.T) {
	w := &writing{}
	for _, value := range []any{math.NaN(), make(chan int)} {
		w.put(t.Context(), "key", value, 0)
	}

	if err := w.exec(t.Context()); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("error %v, want the one of NaN", err)
	}
}
