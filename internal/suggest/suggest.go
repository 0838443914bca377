package suggest

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// windows are those that limits are proposed for.
var windows = []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}

// mostTop is how many clients of a proposal are named.
const mostTop = 10

// asMuch is the share of the most that any proposal denies, at which a shorter window is preferred: its clients wait less.
const asMuch = 0.99

// Report is what a log suggests. Its JSON form is the command line's contract.
type Report struct {
	Requests int64 `json:"requests"`
	Keys     int64 `json:"keys"`
	// SetApart are the keys that are far above all others. The share that may be touched is of the others.
	SetApart int64   `json:"keys_set_apart"`
	Touch    float64 `json:"touch"`

	First *time.Time `json:"first"`
	Last  *time.Time `json:"last"`
	// SampledKeys is the share of the keys that was looked at; below 1 all numbers of keys and touched requests are estimates.
	SampledKeys float64 `json:"sampled_keys"`

	// Proposals have the one to begin with first, and the others by their windows.
	Proposals []Proposal `json:"proposals"`
	// Unknown says what a log cannot tell.
	Unknown  []string `json:"unknown"`
	Skipped  int64    `json:"skipped_lines"`
	Warnings []string `json:"warnings"`
}

// Proposal is a limit by window.
type Proposal struct {
	Window    string `json:"window"`
	Algorithm string `json:"algorithm"`
	Limit     int64  `json:"limit"`
	Burst     int64  `json:"burst"`
	// TouchedKeys are those that lose a request, TouchedRequests what they lose.
	TouchedKeys     int64 `json:"touched_keys"`
	TouchedRequests int64 `json:"touched_requests"`
	// TouchedOthers are those of the touched keys that are not set apart.
	TouchedOthers int64 `json:"touched_keys_not_set_apart"`
	Top           []Top `json:"top"`

	window time.Duration
	most   []int64 // the most that each client sends in the window, sorted downwards
}

// Top is a key that a proposal touches, with the requests that it would lose and all of its requests.
type Top struct {
	Key      string `json:"key"`
	Count    int64  `json:"count"`
	Requests int64  `json:"requests"`
}

// Side is the proposal as a limiter.
func (p *Proposal) Side() algorithms.Side {
	return algorithms.Side{Algorithm: algorithms.TokenBucket{}, Limit: algorithms.Limit{Requests: p.Limit, Window: p.window, Burst: p.Burst}}
}

// ShortForm is the proposal as a flag takes it.
func (p *Proposal) ShortForm() string {
	return fmt.Sprintf("%s:%d/%s:burst=%d", p.Algorithm, p.Limit, p.Window, p.Burst)
}

// Of proposes limits that touch at most a share of the clients that are not set apart, and of their requests.
func Of(ctx context.Context, requests *Requests, touch float64) (*Report, error) {
	clients := requests.clients()
	r := &Report{Requests: requests.total, Touch: touch, SampledKeys: 1 / float64(int64(1)<<requests.halved), Proposals: []Proposal{}, Unknown: []string{}}
	s := &search{clients: clients, touch: touch, scale: 1 << requests.halved}
	r.Keys = s.scale * int64(len(clients))
	if len(clients) == 0 {
		return r, nil
	}
	span := s.span()

	var proposed []time.Duration
	var counts [][]int64
	for _, window := range windows {
		// A log that is shorter by the last pause of its clients is still one of a day.
		if span < window-window/10 {
			break
		}
		of := make([]int64, len(clients))
		for i := range clients {
			of[i] = clients[i].most(window.Microseconds())
		}
		proposed, counts = append(proposed, window), append(counts, of)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	setApart(clients, counts)
	s.count()
	r.SetApart = s.scale * (int64(len(clients)) - s.others)

	for i, window := range proposed {
		r.Proposals = append(r.Proposals, s.propose(window, counts[i]))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	r.order()
	r.Unknown = r.unknown(span)
	return r, nil
}

// order puts the proposal to begin with first: the shortest window that denies nearly as much as any. All proposals touch as few of the
// clients that are not set apart, so what one denies more is of those that are.
func (r *Report) order() {
	var most int64
	for i := range r.Proposals {
		most = max(most, r.Proposals[i].TouchedRequests)
	}
	for i := range r.Proposals {
		p := r.Proposals[i]
		if p.TouchedRequests == 0 && most == 0 && p.window < time.Minute && i+1 < len(r.Proposals) {
			continue // nobody is touched by any: seconds are too short to begin with
		}
		if float64(p.TouchedRequests) >= asMuch*float64(most) {
			r.Proposals = slices.Insert(slices.Delete(r.Proposals, i, i+1), 0, p)
			return
		}
	}
}

// ByWindow returns the proposals by their windows.
func (r *Report) ByWindow() []*Proposal {
	var list []*Proposal
	for i := range r.Proposals {
		list = append(list, &r.Proposals[i])
	}
	slices.SortFunc(list, func(a, b *Proposal) int { return cmp.Compare(a.window, b.window) })
	return list
}

func (r *Report) unknown(span time.Duration) (list []string) {
	list = append(list, "Clients behind one address are one client here: an office or a carrier's gateway may be touched as one. --key counts by something better.")
	list = append(list, fmt.Sprintf("The log is of %s: seasons that are longer, such as a week's or a sale's, are not in it.", humanize.Span(span)))
	if r.SetApart > 0 {
		list = append(list, fmt.Sprintf("%s set apart as far above all others: a log does not say whether such a client abuses the service, "+
			"or is a partner, a monitor or a proxy.", are(r.SetApart)))
	}
	if len(r.Proposals) < len(windows) {
		list = append(list, fmt.Sprintf("For windows of %s and more the log is too short.", algorithms.FormatWindow(windows[len(r.Proposals)])))
	}
	if r.SampledKeys < 1 {
		list = append(list, fmt.Sprintf("The log has more requests than are kept: every %dth client was looked at, so numbers of clients are "+
			"estimates, and a client that is not named may be touched.", int64(1/r.SampledKeys)))
	}
	return list
}

// WriteText writes the report for people.
func (r *Report) WriteText(out io.Writer) error {
	b := humanize.PageFor(out)
	fmt.Fprintf(b, "%s of %s", humanize.Counted(r.Requests, "request"), humanize.Counted(r.Keys, "client"))
	if r.First != nil {
		fmt.Fprintf(b, "\n%s to %s UTC", r.First.Format(time.DateTime), r.Last.Format(time.DateTime))
	}
	b.WriteString("\n" + r.Rule() + "\n")

	if len(r.Proposals) == 0 {
		b.WriteString("\nno proposal: the log is of less than a second\n")
		return b.Show(out)
	}

	first := &r.Proposals[0]
	fmt.Fprintf(b, "\n                                   clients       of the    requests    of\n"+
		"    window      limit      burst   touched       others      denied   all\n")
	for _, p := range r.ByWindow() {
		mark := " "
		if p == first {
			mark = ">"
		}
		fmt.Fprintf(b, "  %s %6s %10s %10s %9s %12s %11s %5s\n", mark, p.Window, humanize.Grouped(p.Limit), humanize.Grouped(p.Burst),
			humanize.Grouped(p.TouchedKeys), humanize.Grouped(p.TouchedOthers), humanize.Grouped(p.TouchedRequests), r.Share(p))
	}
	b.WriteString("\n" + r.Choice() + "\n")

	if len(first.Top) > 0 {
		fmt.Fprintf(b, "\n%s\n      denied          of  client\n", r.Whom())
		for _, top := range first.Top {
			fmt.Fprintf(b, "  %10s  %10s  %s\n", humanize.Grouped(top.Count), humanize.Grouped(top.Requests), humanize.Printable(top.Key))
		}
	}

	b.WriteString("\nwhat a log does not say\n")
	for _, text := range r.Unknown {
		b.WriteString("* " + text + "\n")
	}
	return b.Show(out)
}

// Rule says what the proposals are held to.
func (r *Report) Rule() string {
	text := fmt.Sprintf("at most %s of the clients are touched, and of their requests", humanize.Percent(r.Touch))
	if r.SetApart > 0 {
		text += fmt.Sprintf("; %s far above all others and not counted", are(r.SetApart))
	}
	return text
}

// Choice says why the first proposal is the first.
func (r *Report) Choice() string {
	p := &r.Proposals[0]
	return fmt.Sprintf("Begin with %s, the shortest window that denies nearly as much as any: %s", p.Window, p.ShortForm())
}

// Whom is the heading of the clients that the first proposal touches.
func (r *Report) Whom() string {
	p := &r.Proposals[0]
	text := "whom it would touch"
	if more := p.TouchedKeys - int64(len(p.Top)); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// Share is that of the requests which a proposal denies.
func (r *Report) Share(p *Proposal) string {
	return strings.ReplaceAll(humanize.Percent(float64(p.TouchedRequests)/float64(r.Requests)), " ", "")
}

// WriteHTML writes the report as one page that needs no other file, runs no script and loads nothing.
func (r *Report) WriteHTML(w io.Writer) error {
	view := struct {
		*Report
		Style    template.CSS
		Security string
		Picture  picture
	}{r, status.Style, status.FilePolicy, pictureOf(r)}
	if err := pageTemplate.Execute(w, view); err != nil {
		return fmt.Errorf("suggest: write the page: %w", err)
	}
	return nil
}

func are(n int64) string {
	if n == 1 {
		return "1 client is"
	}
	return humanize.Counted(n, "client") + " are"
}

// search finds proposals.
type search struct {
	clients  []client
	touch    float64
	scale    int64 // of the sample
	others   int64 // clients that are not set apart
	requests int64 // of the others
}

func (s *search) span() time.Duration {
	first, last := s.clients[0].at[0], s.clients[0].at[0]
	for _, c := range s.clients {
		first, last = min(first, c.at[0]), max(last, c.at[len(c.at)-1])
	}
	return time.Duration(last-first) * time.Microsecond
}

func (s *search) count() {
	for _, c := range s.clients {
		if !c.apart {
			s.others++
			s.requests += int64(len(c.at))
		}
	}
}

// propose finds the least limit of what clients send in a window that touches as few as it may, and for this limit the smallest burst. Fewer clients may
// be touched than the share of clients allows, because those that are touched lose more than the share of requests.
func (s *search) propose(window time.Duration, counts []int64) Proposal {
	sorted := slices.Clone(counts)
	slices.SortFunc(sorted, descending)

	low, high := int64(0), min(int64(s.touch*float64(s.others)), s.others-1) // how many of the others are touched
	best, _ := s.try(window, counts, low)
	for low < high {
		middle := (low + high + 1) / 2
		p, denied := s.try(window, counts, middle)
		if float64(denied) > s.touch*float64(s.requests) {
			high = middle - 1
			continue
		}
		low, best = middle, p
	}
	best.most = sorted
	return best
}

// try is the proposal that touches at most so many of the clients that are not set apart, and what it denies these. The limit is what the
// others send at most in a window, and a bucket of that limit never needs a burst above it.
func (s *search) try(window time.Duration, counts []int64, most int64) (p Proposal, denied int64) {
	w := window.Microseconds()
	p = Proposal{Window: algorithms.FormatWindow(window), Algorithm: algorithms.TokenBucket{}.Name(), window: window, Top: []Top{}}
	p.Limit = s.rank(most, func(i int) int64 { return counts[i] })
	p.Burst = s.rank(most, func(i int) int64 { return s.clients[i].burst(p.Limit, w) })

	for i := range s.clients {
		c := &s.clients[i]
		n := c.denied(p.Limit, p.Burst, w)
		if n == 0 {
			continue
		}
		p.TouchedKeys += s.scale
		p.TouchedRequests += s.scale * n
		if !c.apart {
			p.TouchedOthers += s.scale
			denied += n
		}
		p.Top = append(p.Top, Top{c.name, n, int64(len(c.at))})
	}
	slices.SortFunc(p.Top, func(a, b Top) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key)) })
	p.Top = p.Top[:min(len(p.Top), mostTop)]
	return p, denied
}

// rank returns the number that at most so many of the clients that are not set apart are above.
func (s *search) rank(most int64, of func(client int) int64) int64 {
	numbers := make([]int64, 0, s.others)
	for i := range s.clients {
		if !s.clients[i].apart {
			numbers = append(numbers, of(i))
		}
	}
	slices.SortFunc(numbers, descending)
	return numbers[most]
}
