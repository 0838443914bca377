package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// MostSwept is the largest number of candidates of a sweep.
const MostSwept = 500

// SweepReport compares candidates that differ in the numbers of their limit. Its JSON form is the command line's contract.
type SweepReport struct {
	// Numbers are the names of the numbers that differ, in the order in which they were asked for.
	Numbers []string `json:"numbers"`
	// Threshold is the bound of newly denied, as a fraction of what the authoritative allows.
	Threshold float64 `json:"threshold"`
	// Least is the candidate with the least burst, or else the least first number, that keeps newly denied below the
	// threshold; nil if none does.
	Least      *Least  `json:"least"`
	Candidates []Swept `json:"candidates"`
}

// Least is the candidate with the least value of a number.
type Least struct {
	Number    string  `json:"number"`
	Numbers   Numbers `json:"numbers"`
	Candidate string  `json:"candidate"`
	index     int     // in the candidates
}

// Swept is one candidate of a sweep. A replay of this candidate alone reports the same counts, keys and verdict.
type Swept struct {
	Candidate string  `json:"candidate"`
	Numbers   Numbers `json:"numbers"`
	// Dominated reports that another candidate newly denies no more and newly allows no more, and one of both less.
	Dominated bool `json:"dominated"`
	status.Summary
	Hurt Hurt        `json:"hurt"`
	Gate gate.Result `json:"gate"`
}

// Sweep judges every candidate that has other numbers than the one of the configuration, over the same events, in memory. Each core
// replays one candidate after the other, so memory does not grow with their number. Pair, Decisions and Texts of the configuration are
// not used; texts describe the candidates. Progress counts candidates.
func Sweep(ctx context.Context, events *Events, cfg Config, candidates []Numbers, texts []string) (*SweepReport, error) {
	s := &sweep{events: events, cfg: cfg, candidates: candidates, texts: texts, list: make([]Swept, len(candidates))}
	s.cfg.Decisions, s.cfg.Progress = nil, nil
	s.cfg.Live = newRun(events, s.cfg).live() // sorts the events, too
	s.progress = cfg.Progress
	if err := s.judgeAll(ctx); err != nil {
		return nil, err
	}
	return s.report(), nil
}

type sweep struct {
	events     *Events
	cfg        Config
	candidates []Numbers
	texts      []string
	list       []Swept // of each candidate
	mu         sync.Mutex
	done       int // requires mu
	progress   func(judged, of int)
}

// judgeAll has each core judge the next of the candidates until none is left, or one fails. It returns that error.
func (s *sweep) judgeAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var next atomic.Int64
	var cores sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(s.candidates)) {
		cores.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(s.candidates) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := s.judge(ctx, i); err != nil {
					cancel(err)
					return
				}
				s.note()
			}
		})
	}
	cores.Wait()

	// An end that was asked for is told as such, and not as the error of the core that noticed it first.
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}

// note counts a candidate that has been judged.
func (s *sweep) note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done++; s.progress != nil {
		s.progress(s.done, len(s.candidates))
	}
}

// judge replays one candidate.
func (s *sweep) judge(ctx context.Context, i int) error {
	cfg := s.cfg
	cfg.Pair = algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	r := newRun(s.events, cfg)
	r.change, r.causes = s.candidates[i].Of, nil
	if err := r.judgeAll(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.candidates[i], err)
	}

	s.list[i] = Swept{
		Candidate: s.texts[i], Numbers: s.candidates[i], Summary: r.summary(), Hurt: r.hurt(), Gate: r.verdict(r.evidence()),
	}
	return nil
}

func (s *sweep) report() *SweepReport {
	report := &SweepReport{Threshold: s.cfg.Gate.WithDefaults().NewlyDenied, Candidates: s.list}
	if len(s.candidates) == 0 {
		return report
	}
	for _, n := range s.candidates[0] {
		report.Numbers = append(report.Numbers, n.Name)
	}

	for i := range s.list {
		for j := range s.list {
			s.list[i].Dominated = s.list[i].Dominated || s.list[j].dominates(&s.list[i])
		}
	}
	report.Least = report.least()
	return report
}

// dominates reports whether the candidate is at least as good in both harms, and better in one. Counts are compared, as
// all candidates have the same denominators. One that fails for some requests is not known to be better.
func (s *Swept) dominates(other *Swept) bool {
	return s.CandidateError <= other.CandidateError && s.NewlyDenied <= other.NewlyDenied && s.NewlyAllowed <= other.NewlyAllowed &&
		(s.NewlyDenied < other.NewlyDenied || s.NewlyAllowed < other.NewlyAllowed)
}

// least finds the least burst, or else the least first number, with newly denied below the threshold. Of several candidates
// it takes the one that newly allows least, and of these the one that newly denies least.
func (r *SweepReport) least() *Least {
	at := 0
	for i, name := range r.Numbers {
		if name == NumberBurst {
			at = i
		}
	}

	best := -1
	for i := range r.Candidates {
		c := &r.Candidates[i]
		denied := c.Ratios.NewlyDenied
		if c.CandidateError > 0 || c.Comparisons == 0 || denied != nil && *denied >= r.Threshold {
			continue
		}
		if best >= 0 {
			b := &r.Candidates[best]
			if cmp.Or(cmp.Compare(b.Numbers[at].Value, c.Numbers[at].Value), cmp.Compare(b.NewlyAllowed, c.NewlyAllowed),
				cmp.Compare(b.NewlyDenied, c.NewlyDenied)) <= 0 {
				continue
			}
		}
		best = i
	}
	if best < 0 {
		return nil
	}
	c := &r.Candidates[best]
	return &Least{r.Numbers[at], c.Numbers, c.Candidate, best}
}
