package humanize

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// JSON for a terminal has no character that the terminal obeys, and says the same.
func TestJSONCanBePrinted(t *testing.T) {
	keys := []string{"plain", "ä€😀", "\x00\x1b[2J\u007f", "\u009b2J", "\u202ereversed", "\U000e0041", "<a>&", `"\`}
	for _, indent := range []string{"", "  "} {
		var out strings.Builder
		if err := WriteJSON(&out, indent, keys); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.String() {
			if !strconv.IsPrint(r) && r != '\n' {
				t.Errorf("%q has %U", out.String(), r)
			}
		}

		var got []string
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil || strings.Join(got, " ") != strings.Join(keys, " ") {
			t.Errorf("%q, %v, want %q", got, err, keys)
		}
	}
}
