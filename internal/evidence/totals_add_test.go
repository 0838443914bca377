package evidence

import (
	"reflect"
	"testing"
)

// fillNumbers sets every number in a value.
func fillNumbers(t *testing.T, v reflect.Value, to int64) {
	t.Helper()

	switch {
	case v.CanInt():
		v.SetInt(to)
	case v.CanFloat():
		v.SetFloat(float64(to))
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			fillNumbers(t, v.Index(i), to)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fillNumbers(t, v.Field(i), to)
		}
	default:
		t.Fatalf("no value for a %s: add its kind here", v.Type())
	}
}

// A count that is added to Totals reaches the metrics only if add sums it over the stripes.
func TestTotalsAddEveryField(t *testing.T) {
	var one, want, got Totals
	fillNumbers(t, reflect.ValueOf(&one).Elem(), 1)
	fillNumbers(t, reflect.ValueOf(&want).Elem(), 2)

	got.add(&one)
	got.add(&one)

	v := reflect.ValueOf(got)
	for i := range v.NumField() {
		if !reflect.DeepEqual(v.Field(i).Interface(), reflect.ValueOf(want).Field(i).Interface()) {
			t.Errorf("Totals.add does not add all of %s: twice 1 is %+v", v.Type().Field(i).Name, v.Field(i))
		}
	}
}
