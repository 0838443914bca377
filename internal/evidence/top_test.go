package evidence

import (
	"reflect"
	"testing"
)

func TestMergeTop(t *testing.T) {
	one := []KeyCount{{"a", 3, 1}, {"b", 2, 0}}
	two := []KeyCount{{"b", 2, 1}, {"c", 3, 0}}

	for most, want := range map[int][]KeyCount{
		9:  {{"b", 4, 1}, {"a", 3, 1}, {"c", 3, 0}},
		2:  {{"b", 4, 1}, {"a", 3, 1}},
		0:  {},
		-1: {}, // a number that a user wrote ends no process
	} {
		if got := MergeTop(most, one, two); !reflect.DeepEqual(got, want) {
			t.Errorf("the first %d: %v, want %v", most, got, want)
		}
	}
}
