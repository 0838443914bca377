package replay

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Number is a number of a limit by its name: limit and burst in units of cost, window in microseconds.
type Number struct {
	Name  string
	Value int64
}

// The numbers of a limit that a sweep may change.
const (
	NumberLimit  = "limit"
	NumberBurst  = "burst"
	NumberWindow = "window"
)

// Text writes the value as the command line takes it.
func (n Number) Text() string {
	if n.Name == NumberWindow {
		return algorithms.FormatWindow(time.Duration(n.Value) * time.Microsecond)
	}
	return strconv.FormatInt(n.Value, 10)
}

// Numbers replace numbers of a candidate's limit. The others stay.
type Numbers []Number

// Of returns the limit with the numbers.
func (ns Numbers) Of(l algorithms.Limit) algorithms.Limit {
	for _, n := range ns {
		switch n.Name {
		case NumberLimit:
			l.Requests = n.Value
		case NumberBurst:
			l.Burst = n.Value
		case NumberWindow:
			l.Window = time.Duration(n.Value) * time.Microsecond
		}
	}
	return l
}

// String writes the numbers as burst=20, limit=15.
func (ns Numbers) String() string {
	parts := make([]string, len(ns))
	for i, n := range ns {
		parts[i] = n.Name + "=" + n.Text()
	}
	return strings.Join(parts, ", ")
}

// MarshalJSON writes an object: counts as numbers, a window as text.
func (ns Numbers) MarshalJSON() ([]byte, error) {
	parts := make([]string, len(ns))
	for i, n := range ns {
		value := n.Text()
		if n.Name == NumberWindow {
			value = strconv.Quote(value)
		}
		parts[i] = fmt.Sprintf("%q:%s", n.Name, value)
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

// UnmarshalJSON reads what MarshalJSON writes. The numbers have the order of their names.
func (ns *Numbers) UnmarshalJSON(b []byte) error {
	var read struct {
		Burst, Limit *int64
		Window       string
	}
	if err := json.Unmarshal(b, &read); err != nil {
		return err
	}

	*ns = nil
	if read.Burst != nil {
		*ns = append(*ns, Number{NumberBurst, *read.Burst})
	}
	if read.Limit != nil {
		*ns = append(*ns, Number{NumberLimit, *read.Limit})
	}
	if read.Window != "" {
		window, err := algorithms.ParseWindow(read.Window)
		if err != nil {
			return err
		}
		*ns = append(*ns, Number{NumberWindow, window.Microseconds()})
	}
	return nil
}
