package replay

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	b.WriteString(counted(r.Requests, "request"))
	if r.First != nil {
		const stamp = "2006-01-02 15:04:05"
		fmt.Fprintf(&b, " from %s to %s UTC (%s)", r.First.Format(stamp), r.Last.Format(stamp), span(r.Last.Sub(*r.First)))
	}
	if r.SkippedLines > 0 {
		fmt.Fprintf(&b, ", %s skipped", counted(r.SkippedLines, "line"))
	}
	b.WriteString("\n")
	for i := range r.Policies {
		r.Policies[i].writeText(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *PolicyReport) writeText(b *strings.Builder) {
	fmt.Fprintf(b, "\npolicy %s, %s\n  authoritative  %s\n  candidate      %s\n\n", p.Name, counted(int64(p.Keys), "key"), p.Authoritative, p.Candidate)
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, n int64, note string) {
		fmt.Fprintf(table, "  %s\t%s\t  %s\n", name, grouped(n), note)
	}
	row("both allow", p.AgreeAllow, "")
	row("both deny", p.AgreeDeny, "")
	row("newly denied", p.NewlyDenied, percent(p.Ratios.NewlyDenied, "of what the authoritative allows", p.KeysNewlyDenied))
	row("newly allowed", p.NewlyAllowed, percent(p.Ratios.NewlyAllowed, "of what the authoritative denies", p.KeysNewlyAllowed))
	row("divergence", p.NewlyDenied+p.NewlyAllowed+p.CandidateError, percent(p.Ratios.Divergence, "of all comparisons", -1))
	table.Flush()
	b.WriteByte('\n')
	p.Gate.WriteText(b) // a strings.Builder takes everything
	p.writeCharts(b)
	writeTop(b, "would be newly denied most", p.TopNewlyDenied, p.NewlyDenied)
	writeTop(b, "would be newly allowed most", p.TopNewlyAllowed, p.NewlyAllowed)
}

// percent words a ratio; keys below 0 are left out.
func percent(ratio *float64, of string, keys int) string {
	if ratio == nil {
		return "no ratio: nothing to measure it against"
	}
	s := fmt.Sprintf("%.3g %% %s", 100**ratio, of)
	if keys >= 0 {
		s += ", " + counted(int64(keys), "key")
	}
	return s
}

func (p *PolicyReport) writeCharts(b *strings.Builder) {
	if p.NewlyDenied+p.NewlyAllowed == 0 {
		return
	}
	fmt.Fprintf(b, "\nover time, %s a column\n", span(p.timeline.Span()))
	for _, o := range []divergence.Outcome{divergence.NewlyDenied, divergence.NewlyAllowed} {
		counts, peak := p.timeline.counts(o)
		fmt.Fprintf(b, "  %-14s%s  peak %s\n", strings.ReplaceAll(o.String(), "_", " "), bars(counts[:], peak), grouped(peak))
	}
}

// bars draws a column per count, an eighth of a line at least for any count
// above 0.
func bars(counts []int64, peak int64) string {
	const levels = "▁▂▃▄▅▆▇█"
	var b strings.Builder
	for _, n := range counts {
		if n == 0 {
			b.WriteByte(' ')
			continue
		}
		level := min(7, int(float64(n)/float64(peak)*8))
		b.WriteString(string([]rune(levels)[level]))
	}
	return "|" + b.String() + "|"
}

func writeTop(b *strings.Builder, title string, top []KeyCount, total int64) {
	if len(top) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, k := range top {
		fmt.Fprintf(b, "  %10s  %5.1f %%  %s\n", grouped(k.Count), 100*float64(k.Count)/float64(total), printable(k.Key))
	}
}

// printable keeps a key from the log off the terminal's controls.
func printable(key string) string {
	const most = 100
	q := strconv.Quote(key)
	if q == `"`+key+`"` && key != "" {
		q = key
	}
	if len(q) > most {
		q = strings.ToValidUTF8(q[:most], "") + "..."
	}
	return q
}

// counted writes a number of things: 1 key, 1,753 keys.
func counted(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return grouped(n) + " " + thing
}

// grouped writes n with commas: 1,234,567.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span writes a duration in days, hours, minutes and seconds, leaving out what
// is 0.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	d = d.Round(time.Second)
	var s string
	for _, u := range []struct {
		name string
		unit time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / u.unit; n > 0 {
			s += strconv.FormatInt(int64(n), 10) + u.name
		}
		d %= u.unit
	}
	return s
}
