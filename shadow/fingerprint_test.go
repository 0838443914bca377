package shadow

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A pair's fingerprint is stored, so it must not change with the words of a release: a policy
// whose fingerprint changes begins again in shadow.
func TestFingerprintsOfPairsAreFixed(t *testing.T) {
	limit := algorithms.Limit{Requests: 100, Window: time.Minute}
	custom := Side{Limiter: AllowFunc(func(string) bool { return true }), Limit: limit, Revision: "3"}
	gcra := Side{Algorithm: algorithms.GCRA{}, Limit: limit, ID: "next"}

	if got := fingerprintOf([2]Side{custom, gcra}); got != "c08af0da751b" {
		t.Errorf("the fingerprint of a custom limiter and a GCRA is %s, was c08af0da751b", got)
	}
}
