package limitertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A rule under which no wait ends is named with the check: its author has to find the mistake.
func TestSearchNamesItsCheck(t *testing.T) {
	defer func() {
		text := fmt.Sprint(recover())
		for _, want := range []string{"limitertest.closed", "10/1s", "cost 3", "at 77 us"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q does not name %q", text, want)
			}
		}
	}()

	o := &Oracle{rule: closed{NewOracle("fixed_window").rule}}
	o.Step(algorithms.Limit{Requests: 10, Window: time.Second}, 3, 77)
}

// closed is a rule that never admits a cost.
type closed struct{ rule }

func (closed) allows(algorithms.Limit, int64, int64) bool { return false }
