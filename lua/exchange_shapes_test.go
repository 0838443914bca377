package lua

import (
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// The script takes a shape without a number for a bucket.
func TestEverySynchronizableShapeHasANumber(t *testing.T) {
	for _, a := range algorithms.All {
		if shape := algorithms.TraitsOf(a).Shape; algorithms.Synchronizable(a) && shapes[shape] == 0 {
			t.Errorf("%s can be synchronized, but its shape %s is not in shapes (exchange.go): give it a number there, and a step in "+
				"exchange.lua", a.Name(), shape)
		}
	}
}
