package replay

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// InferReport says which limiter explains the denials of a log best. Its JSON form is the command line's contract.
type InferReport struct {
	Requests int64 `json:"requests"` // of which the log says what the limiter did
	Denied   int64 `json:"denied"`   // of them
	Unknown  int64 `json:"unknown"`  // of which the log does not say it
	Keys     int   `json:"keys"`
	// DeniedKeys are the keys with a denied request: no other key says what the limit is, but that it is not less.
	DeniedKeys int `json:"denied_keys"`
	// Clock is the least distance of two instants of the log, such as 1s or 1ms.
	Clock string `json:"clock"`
	// Best explains the log best, and of several with the least Wrong it is the simplest; nil if none explains a denial.
	Best *Inferred `json:"best"`
	// Others explain the log as well as Best, as far as it can tell. Next is the best of all that explain it less; nil: none.
	Others []Inferred `json:"others"`
	Next   *Inferred  `json:"next"`
	// SkippedLines and Warnings are those of a replay's report.
	SkippedLines int64    `json:"skipped_lines"`
	Warnings     []string `json:"warnings"`
}

// Inferred is a limiter beside the log.
type Inferred struct {
	// Limiter is in the short form, as --from takes it.
	Limiter string `json:"limiter"`
	// Cost is what a request costs: 1, or 1000 for a limiter that rounds its count down, whose Limiter is in thousandths.
	Cost int64 `json:"cost"`
	// Least and Most are the limits, or the bursts of a bucket, that the log does not tell from this one.
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
	// Wrong is how many requests the limiter, charged with the whole log, decides in another way than the log says: it denies
	// ModelDenies that the log allowed, and allows ModelAllows that the log denied. A key's requests of one instant of the log's
	// clock are compared by the number of denials.
	Wrong       int64 `json:"wrong"`
	ModelDenies int64 `json:"model_denies"`
	ModelAllows int64 `json:"model_allows"`
	rounded     int64 // the limit in requests
}

// Bounds of a search.
const (
	mostHot   = 50_000 // events of denied keys on which limiters are tried first
	finalists = 12     // limiters that are then charged with the whole log
	zooms     = 3      // finer rates around the best, of buckets
)

// search looks for the limiter of a log.
type search struct {
	keys  []string
	list  []event // those of which the log says what the limiter did
	hot   []event // of list: those of denied keys
	costs bool    // whether they vary
	span  time.Duration
	fine  time.Duration // the least distance of two instants

	mu       sync.Mutex
	tried    []trial // requires mu
	done     int     // requires mu
	of       int
	progress func(judged, of int)
}

// Infer searches algorithm, window, limit, burst and options of the limiter that explains best which requests a log says were
// denied. It tries each kind of limiter on the keys with denials, where one pass over the log tells the limit (decision
// 0744), and charges the best of them with the whole log. Memory grows by 50 bytes an event and core.
// The events must have been observed. Progress counts limiters.
func Infer(ctx context.Context, events *Events, progress func(judged, of int)) (*InferReport, error) {
	s, report := newSearch(events, progress)
	if report.Denied == 0 || report.Denied == report.Requests {
		return report, nil
	}

	// Rates come in rounds: each looks closer around the best of the one before.
	round := append(s.windows(), coarseRates()...)
	for range zooms + 1 {
		if err := s.try(ctx, round); err != nil {
			return nil, err
		}
		round = s.finerRates()
	}

	if err := s.charge(ctx); err != nil {
		return nil, err
	}
	report.rank(s.tried)
	return report, nil
}

func newSearch(events *Events, progress func(judged, of int)) (*search, *InferReport) {
	events.list.sort()
	s := &search{keys: events.keys, progress: progress}
	report := &InferReport{Others: []Inferred{}}

	denials := make([]int64, len(events.keys))
	known := make([]bool, len(events.keys))
	for e := range events.list.all() {
		switch {
		case e.cost == 0: // a peek, which no limiter denies
			continue
		case e.observed == Unobserved:
			report.Unknown++
			continue
		case e.observed == ObservedDenied:
			denials[e.key]++
			report.Denied++
		}
		if !known[e.key] {
			known[e.key] = true
			report.Keys++
		}
		s.costs = s.costs || len(s.list) > 0 && e.cost != s.list[0].cost
		s.list = append(s.list, *e)
	}

	report.Requests = int64(len(s.list))
	s.measure()
	report.Clock = algorithms.FormatWindow(s.fine)
	report.DeniedKeys = s.heat(denials)
	return s, report
}

// measure finds the length of the log and the resolution of its clock.
func (s *search) measure() {
	s.fine = time.Second
	if len(s.list) == 0 {
		return
	}
	s.span = time.Duration(s.list[len(s.list)-1].at-s.list[0].at) * time.Microsecond

	for _, e := range s.list {
		for s.fine > time.Microsecond && e.at%s.fine.Microseconds() != 0 {
			s.fine /= 10
		}
	}

	// Within a second a limiter forgets much of what it has counted, and a clock of whole seconds does not show when. The lines of
	// a second are taken as evenly spread.
	if s.fine == time.Second {
		s.spread()
	}
}

// spread spreads the events of each second over it, in their order.
func (s *search) spread() {
	for from := 0; from < len(s.list); {
		to := from
		for to < len(s.list) && s.list[to].at == s.list[from].at {
			to++
		}
		for i := from + 1; i < to; i++ {
			s.list[i].at += int64(i-from) * time.Second.Microseconds() / int64(to-from)
		}
		from = to
	}
}

// heat picks the events of the keys with most denials, as many as are tried at first, and returns how many keys have any.
func (s *search) heat(denials []int64) (keys int) {
	order := []uint32{}
	for key, n := range denials {
		if n > 0 {
			order = append(order, uint32(key))
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(denials[b], denials[a]) })

	counts := make([]int, len(denials))
	for _, e := range s.list {
		counts[e.key]++
	}

	// One key is taken whatever it has: half of its events would have no beginning or no end.
	hot, room := make([]bool, len(denials)), mostHot
	for i, key := range order {
		if i == 0 || counts[key] <= room {
			hot[key] = true
			room -= counts[key]
		}
	}
	for _, e := range s.list {
		if hot[e.key] {
			s.hot = append(s.hot, e)
		}
	}
	return len(order)
}

// try finds the limit of each hypothesis, and keeps the ones that explain a denial.
func (s *search) try(ctx context.Context, round []hypothesis) error {
	s.of += len(round)
	return onAllCores(ctx, len(round), func(ctx context.Context, i int) error {
		t, found, err := s.fit(ctx, round[i])
		if err != nil {
			return err
		}

		s.mu.Lock()
		defer s.mu.Unlock()
		if found {
			s.tried = append(s.tried, t)
		}
		if s.done++; s.progress != nil {
			s.progress(s.done, s.of)
		}
		return nil
	})
}

// charge charges the best limiters with the log, and keeps only these. What they decide then depends on their own decisions
// before, and not on the ones of the log.
func (s *search) charge(ctx context.Context) error {
	s.tried = best(s.tried, 3*finalists)
	if err := s.chargeAll(ctx, s.hot); err != nil {
		return err
	}
	s.tried = best(s.tried, finalists)
	return s.chargeAll(ctx, s.list)
}

func (s *search) chargeAll(ctx context.Context, list []event) error {
	return onAllCores(ctx, len(s.tried), func(ctx context.Context, i int) error {
		return s.tried[i].charge(ctx, s.keys, list, s.fine)
	})
}
