package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
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

// Drawn draws each candidate by both harms.
func (r *SweepReport) Drawn() status.Chart {
	var points []status.Place
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if c.Ratios.NewlyDenied == nil || c.Ratios.NewlyAllowed == nil {
			continue
		}
		class := evidence.NewlyDenied.String()
		if c.Dominated {
			class = "dominated"
		}
		points = append(points, status.Place{X: *c.Ratios.NewlyAllowed, Y: *c.Ratios.NewlyDenied, Class: class})
	}
	const caption = "Newly denied, upwards, by newly allowed, to the right; dominated candidates are grey"
	return status.Scatter(caption, "the tables below have its numbers", points, r.Threshold)
}

// The rows of a sweep that are shown to people. JSON has them all.
const (
	shownFrontier  = 40
	shownDominated = 20
)

// writeText writes the frontier as a table, the candidates that it dominates, and the least candidate.
func (r *SweepReport) writeText(page *humanize.Page, p *PolicyReport) {
	b := &page.Builder
	fmt.Fprintf(b, "  authoritative  %s\n  candidates     %s of %s\n                 with other %s\n",
		p.Authoritative, humanize.Grouped(int64(len(r.Candidates))), p.Candidate, strings.Join(r.Numbers, ", "))
	p.Observed.writeText(b)

	for _, t := range r.Tables() {
		fmt.Fprintf(b, "\n%s\n", t.Title)
		r.writeTable(page, t)
	}
	r.writeLeast(b)
}

// SweepTable is a list of candidates, in the order of what they newly deny, as far as people are shown it.
type SweepTable struct {
	Title string
	Rows  []*Swept
	More  int // that are not shown
}

// Tables are the frontier, and the dominated candidates if there are any.
func (r *SweepReport) Tables() []SweepTable {
	var frontier, dominated []*Swept
	for i := range r.Candidates {
		if c := &r.Candidates[i]; c.Dominated {
			dominated = append(dominated, c)
		} else {
			frontier = append(frontier, c)
		}
	}

	list := []SweepTable{sweepTable("frontier of harm and protection: less of one is more of the other", frontier, shownFrontier)}
	if len(dominated) > 0 {
		list = append(list,
			sweepTable("dominated: another one newly denies and newly allows no more, and less of one", dominated, shownDominated))
	}
	return list
}

func sweepTable(title string, list []*Swept, most int) SweepTable {
	slices.SortStableFunc(list, func(x, y *Swept) int { return cmp.Compare(x.NewlyDenied, y.NewlyDenied) })
	n := min(len(list), most)
	return SweepTable{title, list[:n], len(list) - n}
}

func (r *SweepReport) writeTable(b *humanize.Page, t SweepTable) {
	widths := r.widths()
	line := func(numbers []string, denied, allowed, load, keys, verdict string) {
		text := " "
		for i, n := range numbers {
			text += fmt.Sprintf(" %*s", widths[i], n)
		}
		text += fmt.Sprintf("  %7s  %7s  %7s  %7s  %s", denied, allowed, load, keys, verdict)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}

	blank := make([]string, len(r.Numbers))
	line(blank, "newly", "newly", "extra", "keys", "")
	line(r.Numbers, "denied", "allowed", "load", "hurt", "gate")
	for _, c := range t.Rows {
		values := make([]string, len(c.Numbers))
		for i, n := range c.Numbers {
			values[i] = n.Text()
		}
		line(values, percentOf(c.Ratios.NewlyDenied), percentOf(c.Ratios.NewlyAllowed), percentOf(c.Ratios.ExtraLoad),
			humanize.Grouped(c.KeysNewlyDenied), gate.Colored(b.Colors, c.Gate.Verdict))
	}
	if t.More > 0 {
		fmt.Fprintf(b, "  and %d more: -o json has all\n", t.More)
	}
}

// widths are those of the columns of numbers.
func (r *SweepReport) widths() []int {
	widths := make([]int, len(r.Numbers))
	for i, name := range r.Numbers {
		widths[i] = len(name)
		for k := range r.Candidates {
			widths[i] = max(widths[i], len(r.Candidates[k].Numbers[i].Text()))
		}
	}
	return widths
}

// percentOf writes a ratio without a space, as a table needs it; - without a denominator.
func percentOf(ratio *float64) string {
	if ratio == nil {
		return "-"
	}
	return strings.ReplaceAll(humanize.Percent(*ratio), " ", "")
}

func (r *SweepReport) writeLeast(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s\n", r.Sentence())
	if c := r.Chosen(); c != nil {
		fmt.Fprintf(b, "  %s\n  gate: %s: %s\n", c.Candidate, c.Gate.Verdict, c.Gate.Reason)
		if text := c.Hurt.String(); text != "" {
			fmt.Fprintf(b, "  %s\n", text)
		}
	}
}

// Sentence names the least candidate, or says that there is none.
func (r *SweepReport) Sentence() string {
	c := r.Chosen()
	if c == nil {
		return "no candidate keeps newly denied below " + humanize.Percent(r.Threshold)
	}
	return fmt.Sprintf("least %s that keeps newly denied below %s: %s", r.Least.Number, humanize.Percent(r.Threshold), c.Numbers)
}

// Chosen is the least candidate; nil if there is none.
func (r *SweepReport) Chosen() *Swept {
	if r.Least == nil {
		return nil
	}
	return &r.Candidates[r.Least.index]
}
