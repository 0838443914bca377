package stages

import (
	"testing"
	"testing/synctest"
	"time"
)

// A canary goes on for its span after the store was last heard of, and is cut off then; one that
// has not heard of it yet is cut off, too.
func TestCanaryIsCutOffAfterItsSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewCurrent()
		if !m.CutOff() {
			t.Error("never heard")
		}
		m.Heard()
		time.Sleep(LeaveCanaryAfter)
		if m.CutOff() {
			t.Error("after its span")
		}
		if time.Sleep(time.Nanosecond); !m.CutOff() {
			t.Error("after more than that")
		}
	})
}
