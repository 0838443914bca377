package adaptive

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// Durations from shortest to longest, in bits of microseconds, have eight buckets in each power of two: a bucket is an eighth
// of its lower end wide.
const (
	shortest = 10
	longest  = 27
	parts    = 8
	buckets  = 1 + (longest-shortest)*parts + 1
)

// Shortest is the shortest duration that may bound a signal: the shortest bucket is read as its end, 1.024 ms, and a level rises a fifth
// below the bound.
const Shortest = 2 * time.Millisecond

// Longest is the longest duration that may bound a signal: longer ones are hardly told apart.
const Longest = 2 * time.Minute

// Sketch has the requests served in some time. Sketches of several instances are joined by addition.
type Sketch struct {
	Failed    int64 // of all requests
	durations [buckets]int64
}

func bucketOf(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	if us < 1<<shortest {
		return 0
	}
	if us >= 1<<longest {
		return buckets - 1
	}

	power := bits.Len64(us) - 1
	return 1 + (power-shortest)*parts + int(us>>(power-3)&(parts-1))
}

// upperEnd returns the end of a bucket, which no duration in it reaches; for the last one its beginning.
func upperEnd(bucket int) time.Duration {
	switch bucket {
	case 0:
		return (1 << shortest) * time.Microsecond
	case buckets - 1:
		return (1 << longest) * time.Microsecond
	}

	power, part := shortest+(bucket-1)/parts, (bucket-1)%parts
	return time.Duration(parts+part+1) << (power - 3) * time.Microsecond
}

// Requests returns the number of requests.
func (s *Sketch) Requests() (n int64) {
	for _, count := range s.durations {
		n += count
	}
	return n
}

// Add adds another sketch.
func (s *Sketch) Add(other *Sketch) {
	s.Failed += other.Failed
	for i, n := range other.durations {
		s.durations[i] += n
	}
}

// Since returns the requests served after an earlier sketch of the same counter.
func (s *Sketch) Since(earlier *Sketch) (d Sketch) {
	d.Failed = max(0, s.Failed-earlier.Failed)
	for i, n := range s.durations {
		d.durations[i] = max(0, n-earlier.durations[i])
	}
	return d
}

// P99 returns the end of the bucket in which the 99th percentile lies: the least duration that at least 99 % of the requests
// are shorter than, as far as buckets tell. It is 0 without a request.
func (s *Sketch) P99() time.Duration {
	all := s.Requests()
	if all == 0 {
		return 0
	}

	// 99 % of a number are rounded up: one slow request of a hundred is the hundredth, and not the 99th percentile.
	rank, seen := all-all/100, int64(0)
	for i, n := range s.durations {
		if seen += n; seen >= rank {
			return upperEnd(i)
		}
	}
	return upperEnd(buckets - 1)
}

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

// Counter counts what one instance serves. Its zero value is ready, and its methods may be called concurrently. Add takes no
// lock and allocates nothing.
type Counter struct {
	failed    atomic.Int64
	durations [buckets]atomic.Int64
}

// Add counts a request.
func (c *Counter) Add(d time.Duration, failed bool) {
	if failed {
		c.failed.Add(1)
	}
	c.durations[bucketOf(d)].Add(1)
}

// Read returns the counts so far. A request that is counted meanwhile may be in it, in whole or by its failure alone.
func (c *Counter) Read() (s Sketch) {
	s.Failed = c.failed.Load()
	for i := range c.durations {
		s.durations[i] = c.durations[i].Load()
	}
	return s
}
