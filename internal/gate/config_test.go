package gate_test

import (
	"reflect"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// Or takes every field that is zero, and no other: a field that is added and forgotten
// there would have no default.
func TestOrTakesEveryField(t *testing.T) {
	var mine, other gate.Config
	for i := range reflect.TypeOf(mine).NumField() {
		setField(t, reflect.ValueOf(&mine).Elem().Field(i), 1)
		setField(t, reflect.ValueOf(&other).Elem().Field(i), 2)
	}

	if got := (gate.Config{}).Or(other); !reflect.DeepEqual(got, other) {
		t.Errorf("of nothing and other: %+v, want %+v", got, other)
	}
	if got := mine.Or(other); !reflect.DeepEqual(got, mine) {
		t.Errorf("of mine and other: %+v, want %+v", got, mine)
	}
}

func setField(t *testing.T, field reflect.Value, value int) {
	t.Helper()
	switch {
	case field.CanInt():
		field.SetInt(int64(value))
	case field.CanFloat():
		field.SetFloat(float64(value))
	case field.Kind() == reflect.Bool:
		field.SetBool(true)
	case field.Kind() == reflect.String:
		field.SetString(string(rune('0' + value)))
	case field.Kind() == reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		setField(t, field.Index(0), value)
	case field.Kind() == reflect.Struct:
		for i := range field.NumField() {
			setField(t, field.Field(i), value)
		}
	default:
		t.Fatalf("a field of type %s: teach this test to set it", field.Type())
	}
}
