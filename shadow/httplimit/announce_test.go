package httplimit_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// The candidate's limit stands behind the enforced one, with a name of its own, until it is enforced itself.
func TestAnnounce(t *testing.T) {
	today := "{ algorithm: fixed_window_anchored, limit: 2, window: 1m }"
	none := strings.Replace(file, today, "none", 1)
	noCandidate := strings.Replace(file, "    candidate: { algorithm: gcra, limit: 1, window: 1h }\n", "", 1)
	for _, tt := range []struct {
		name, file string
		style      httplimit.Fields
		promoted   bool
		want       string
	}{
		{"in shadow", file, httplimit.FieldsDraft08, false, `"per-client";q=2;w=60, "per-client:candidate";q=1;w=3600`},
		{"without names", file, httplimit.FieldsDraft06, false, `2;w=60, 1;w=3600`},
		{"a style without the field", file, httplimit.FieldsLegacy, false, ""},
		{"a first limit", none, httplimit.FieldsDraft08, false, `"per-client:candidate";q=1;w=3600`},
		{"no candidate", noCandidate, httplimit.FieldsDraft08, false, `"per-client";q=2;w=60`},
		{"promoted", file, httplimit.FieldsDraft08, true, `"per-client";q=1;w=3600`},
	} {
		by := harness(t, tt.file)
		if tt.promoted {
			err := by.Stages().Promote(t.Context(), "per-client", 100, shadow.Move{Actor: "test", Reason: "test", Force: true})
			if err == nil {
				err = by.Sync(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		h := httplimit.New(by, httplimit.Config{Announce: true, Fields: tt.style})(items())
		for i := range 2 { // the second is written from kept texts
			got := get(h, "/items/1", "192.0.2.1").Header.Get("RateLimit-Policy")
			if got != tt.want {
				t.Errorf("%s, request %d: %s, want %s", tt.name, i, got, tt.want)
			}
		}
	}
}
