package adaptive

import (
	"encoding/json"
	"fmt"
)

// storedSketch is a sketch as it travels: pairs of a bucket and its count, for most buckets are empty.
type storedSketch struct {
	Failed    int64   `json:"failed,omitempty"`
	Durations []int64 `json:"durations,omitempty"`
}

// mostCount bounds a count of another process: sums of fleets must not overflow.
const mostCount = 1 << 40

// MarshalJSON implements json.Marshaler.
func (s Sketch) MarshalJSON() ([]byte, error) {
	out := storedSketch{Failed: s.Failed}
	for i, n := range s.durations {
		if n > 0 {
			out.Durations = append(out.Durations, int64(i), n)
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler. It leaves out what cannot be a count.
func (s *Sketch) UnmarshalJSON(text []byte) error {
	var in storedSketch
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("adaptive: read a sketch: %w", err)
	}

	*s = Sketch{Failed: min(max(in.Failed, 0), mostCount)}
	for pair := in.Durations; len(pair) >= 2; pair = pair[2:] {
		if pair[0] >= 0 && pair[0] < buckets {
			s.durations[pair[0]] = min(max(pair[1], 0), mostCount)
		}
	}
	return nil
}

// Key is the rule as a text. Sides with equal rules share a level.
func (r *Rule) Key() string {
	return fmt.Sprintf("%d %v %d", r.Signal, r.Steps, r.Every.Microseconds())
}

// Valid reports whether a rule of another process can be followed.
func (r *Rule) Valid() bool {
	if r.Signal > Saturation || r.Every < LeastEvery || r.Every > MostEvery || len(r.Steps) < 1 || len(r.Steps) > 8 {
		return false
	}
	last := Step{Level: Full}
	for _, step := range r.Steps {
		if step.Above <= last.Above || step.Level >= last.Level || step.Level < 1 {
			return false
		}
		last = step
	}
	return true
}
