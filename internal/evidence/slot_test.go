package evidence

import (
	"fmt"
	"reflect"
	"testing"
)

// Every number of a slot is stored and comes back. One that a new field has, and the ledger does not know, is missing here.
func TestSlotsComeBack(t *testing.T) {
	want := Slot{
		Minute:    Minute{Unix: 29539440, Disturbed: &Disturbance{}, Keys: [sampledRatios]KeySample{{1, 2, 3}, {4}, {5}}},
		Protected: ProtectedKeys{{Key: "a"}, {Key: "b\x00:"}},
		Ticks: []Tick{
			{Unix: 29539440 * 6, Disturbed: &Disturbance{}, Harmed: []uint32{6, 7}},
			{Unix: 29539440*6 + 5, Disturbed: &Disturbance{}, Denied: Weights{{8, 9}}, Allowed: Weights{{10, 11}}, Lonely: Weights{{12, 13}}},
		},
	}
	fillNumbers(t, reflect.ValueOf(&want.Tally).Elem(), 1)
	fillNumbers(t, reflect.ValueOf(&want.Causes).Elem(), 1)
	fillNumbers(t, reflect.ValueOf(&want.Skipped).Elem(), 1)
	fillNumbers(t, reflect.ValueOf(want.Disturbed).Elem(), 1)
	want.Extra = new(Tally)
	fillNumbers(t, reflect.ValueOf(want.Extra).Elem(), -3)
	want.Live = 100
	for i := range want.Protected {
		fillNumbers(t, reflect.ValueOf(&want.Protected[i].Counts).Elem(), int64(i+1))
	}
	for i := range want.Ticks {
		tick := &want.Ticks[i]
		fillNumbers(t, reflect.ValueOf(&tick.Tally).Elem(), 1)
		fillNumbers(t, reflect.ValueOf(&tick.Alone).Elem(), 1)
		fillNumbers(t, reflect.ValueOf(tick.Disturbed).Elem(), 1)
		tick.Failed, tick.Slow = 14, 15
	}

	fields := map[string]string{}
	for _, c := range want.counters() {
		fields[c.name] = fmt.Sprint(*c.n)
	}
	for i := range want.Ticks {
		for _, c := range tickCounters(&want.Ticks[i]) {
			fields[c.name] = fmt.Sprint(*c.n)
		}
	}
	for _, c := range want.keyCounters() {
		fields[c.group+c.key] = fmt.Sprint(c.n)
	}
	for _, h := range want.hashes() {
		fields[h.name] = h.text
	}
	if got := slotOf(want.Unix, fields); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The ledger adds costs up without a bound. What is read is bounded, so that one request of an enormous cost does not end all evidence.
func TestCostsAreBounded(t *testing.T) {
	s := slotOf(7, map[string]string{"x01": "9223372036854775807", "c1": "5", "0c0": "9223372036854775807", "u2": "-9223372036854775808"})
	if s.Err != nil || s.Extra[NewlyDenied] != -mostCost {
		t.Errorf("%+v, %v", s.Extra, s.Err)
	}
	if s.Err != nil || s.Disturbed.OneSided[0][1] != mostCost || s.Disturbed.Compared[1] != 5 || s.Ticks[0].Disturbed.Compared[0] != mostCost {
		t.Errorf("%+v %+v, %v", s.Disturbed, s.Ticks, s.Err)
	}
}
