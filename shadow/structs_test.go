package shadow

import (
	"reflect"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// mostFields is how many fields a struct may have that requests pass through. A struct
// with more has several reasons to change.
const mostFields = 12

// Every struct of this module that a request can reach is small.
func TestStructsOnARequestsWayAreSmall(t *testing.T) {
	seen := map[reflect.Type]bool{}
	for _, root := range []any{engine{}, scratch{}, asyncCheck{}, localAnswer{}, Decision{}, Comparison{}, divergence.Setting{}} {
		walkStructs(reflect.TypeOf(root), seen)
	}

	// Documents have the fields of their format.
	delete(seen, reflect.TypeOf(promotion.State{}))    // as stored
	delete(seen, reflect.TypeOf(promotion.Spec{}))     // as announced
	delete(seen, reflect.TypeOf(policies.Promotion{})) // as in the policy file
	delete(seen, reflect.TypeOf(policies.Policy{}))    // likewise

	for s := range seen {
		if s.NumField() > mostFields {
			t.Errorf("%s has %d fields, want at most %d: put those that are used together into a struct of their own", s, s.NumField(), mostFields)
		}
	}

	// The walk itself must not lose its way.
	for _, want := range []any{migration{}, side{}, progress{}, appliedStage{}, counters{}, evaluation{}, store{}} {
		if !seen[reflect.TypeOf(want)] {
			t.Errorf("the walk does not reach %T", want)
		}
	}
}

// walkStructs adds the structs of this module that a type leads to, itself included.
func walkStructs(typ reflect.Type, seen map[reflect.Type]bool) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		walkStructs(typ.Elem(), seen)
	case reflect.Map:
		walkStructs(typ.Key(), seen)
		walkStructs(typ.Elem(), seen)
	case reflect.Struct:
		// An atomic.Pointer has a field of the type that it points to.
		ours := strings.HasPrefix(typ.PkgPath(), "github.com/shadowlimit/") || typ.PkgPath() == "sync/atomic"
		if seen[typ] || !ours {
			return
		}

		seen[typ] = true
		for i := range typ.NumField() {
			walkStructs(typ.Field(i).Type, seen)
		}
	}
}
