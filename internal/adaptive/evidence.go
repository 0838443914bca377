package adaptive

import (
	"math"
	"time"
)

// Signal says how a service does.
type Signal uint8

const (
	// LatencyP99 is the 99th percentile of the durations of handlers, in microseconds.
	LatencyP99 Signal = iota
	// ErrorRate is the share of requests that the service answers with an error, in parts of a million.
	ErrorRate
	// Saturation is what the service says itself, the mean of its instances, in parts of a million.
	Saturation
)

// SignalNames are the words of a policy file, by signal.
var SignalNames = []string{LatencyP99: "latency_p99", ErrorRate: "error_rate", Saturation: "saturation"}

// String returns the word of a policy file; "" for any other number.
func (s Signal) String() string {
	if int(s) < len(SignalNames) {
		return SignalNames[s]
	}
	return ""
}

// Million is a ratio of 1 as signals have it.
const Million = 1_000_000

// leastRequests is the number of requests below which a percentile or a ratio says nothing, and leastFailures the one of failures below
// which a service is well: one request that fails of 50 must not halve the limit.
const (
	leastRequests = 20
	leastFailures = 5
)

// Evidence is what all instances of a service report of one time.
type Evidence struct {
	Sketch
	saturation, saturated int64 // the sum, and the number of instances that report one
}

// Saturate adds an instance's own signal, a ratio between 0 and 1. Other numbers are taken as the nearer end, and one that is
// not a number is not counted.
func (e *Evidence) Saturate(ratio float64) {
	if math.IsNaN(ratio) {
		return
	}
	e.saturation += int64(min(max(ratio, 0), 1) * Million)
	e.saturated++
}

// Reading returns the value of a signal, and whether the evidence tells one.
func (e *Evidence) Reading(s Signal) (value int64, known bool) {
	requests := e.Requests()
	switch {
	case s == Saturation:
		return e.saturation / max(1, e.saturated), e.saturated > 0
	case requests < leastRequests:
		return 0, false
	case s == ErrorRate && e.Failed < leastFailures:
		return 0, true
	case s == ErrorRate:
		return e.errors(requests), true
	}
	return e.P99().Microseconds(), true
}

// errors returns the share of requests that have failed, in parts of a million.
func (e *Evidence) errors(requests int64) int64 {
	// Counts of other processes may be any: the product must not overflow.
	failed := min(e.Failed, requests)
	for requests > math.MaxInt64/Million {
		failed, requests = failed/2, requests/2
	}
	return failed * Million / requests
}

// Limit returns a duration as LatencyP99 has it.
func Limit(d time.Duration) int64 { return d.Microseconds() }
