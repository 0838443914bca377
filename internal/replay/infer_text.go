package replay

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// rank fills the report with trials that were charged with the whole log.
func (r *InferReport) rank(list []trial) {
	list = best(list, len(list))
	if len(list) == 0 || list[0].allows == r.Denied {
		return
	}

	// A difference that is within the log's noise tells nothing, so among these the simplest is the best.
	alike := slices.IndexFunc(list, func(t trial) bool { return t.wrong > noisy(list[0].wrong) })
	if alike < 0 {
		alike = len(list)
	} else {
		next := list[alike].inferred()
		r.Next = &next
	}
	slices.SortStableFunc(list[:alike], func(a, b trial) int { return cmp.Compare(a.complexity(), b.complexity()) })

	first := list[0].inferred()
	r.Best = &first
	for i := range list[1:alike] {
		r.Others = append(r.Others, list[1+i].inferred())
	}
}

func (t *trial) inferred() Inferred {
	return Inferred{
		Limiter: t.String(), Cost: t.cost, rounded: t.number() / t.cost, Least: t.least, Most: t.most, Wrong: t.wrong,
		ModelDenies: t.denies, ModelAllows: t.allows,
	}
}

// sure is the least share of a log's denials that the best limiter explains if it is to be the log's.
const sure = 0.9

// WriteText writes the report for people, in lines of at most 80 columns.
func (r *InferReport) WriteText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s, of which the log denied %s, of %s\n",
		humanize.Counted(r.Requests, "request"), humanize.Counted(int64(r.Keys), "key"),
		humanize.Grouped(r.Denied), humanize.Counted(int64(r.DeniedKeys), "key"))
	if r.Unknown > 0 {
		fmt.Fprintf(&b, "%s without an answer in the log, left out\n", humanize.Counted(r.Unknown, "request"))
	}

	switch {
	case r.Denied == 0:
		b.WriteString("no request was denied, so the log does not tell the limit: any limit above its\n" +
			"traffic explains it\n")
	case r.Denied == r.Requests:
		b.WriteString("every request was denied, so the log does not tell the limit: is it --observed\nthat is turned round?\n")
	case r.Best == nil:
		b.WriteString("no limiter explains a denial: is the key another one? Try --key\n")
	default:
		r.writeBest(&b)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *InferReport) writeBest(b *strings.Builder) {
	fmt.Fprintf(b, "\nbest    %s\n", r.Best)
	r.Best.writeErrors(b, r)

	// The three buckets are one limiter with other fields and delays, so the log never tells them apart.
	if strings.HasPrefix(r.Best.Limiter, "token_bucket") {
		b.WriteString("        gcra and leaky_bucket with the same numbers decide alike\n")
	}

	if r.Clock == "1s" {
		b.WriteString("        the log's clock has whole seconds: the requests of one are taken as\n" +
			"        evenly spread, and their denials are compared by number\n")
	}

	explained := 1 - float64(r.Best.ModelAllows)/float64(r.Denied)
	switch {
	case explained < sure:
		fmt.Fprintf(b, "sure    no: it explains %s of the denials only; the key may be another one\n"+
			"        (--key), or several limits may be charged together\n", humanize.Percent(explained))
	case len(r.Others) > 0:
		fmt.Fprintf(b, "sure    no: %s the log equally well, as far as it tells\n",
			humanize.Counted(int64(len(r.Others)), "other limiter")+explains(len(r.Others)))
	case r.Next != nil:
		fmt.Fprintf(b, "sure    yes: the next best differs from the log in %s more,\n        %s\n",
			humanize.Counted(r.Next.Wrong-r.Best.Wrong, "request"), r.Next)
	default:
		b.WriteString("sure    yes: no other limiter explains a denial\n")
	}
	for i := range r.Others {
		fmt.Fprintf(b, "        %s\n", &r.Others[i])
	}
}

func explains(n int) string {
	if n == 1 {
		return " explains"
	}
	return " explain"
}

// String writes the limiter, and the cost where it is not 1: the limit is then one below a multiple of it.
func (l *Inferred) String() string {
	if l.Cost == 1 {
		return l.Limiter
	}
	return fmt.Sprintf("%s,\n        where each request costs %d: a rate above %d, rounded down, is denied", l.Limiter, l.Cost, l.rounded)
}

// writeErrors says what the limiter decides in another way than the log, and which of its numbers the log leaves open.
func (l *Inferred) writeErrors(b *strings.Builder, r *InferReport) {
	allowed := r.Requests - r.Denied
	fmt.Fprintf(b, "        denies %s of the %s that the log denied, and\n        %s of the %s that it allowed\n",
		humanize.Grouped(r.Denied-l.ModelAllows), humanize.Counted(r.Denied, "request"),
		humanize.Grouped(l.ModelDenies), humanize.Grouped(allowed))
	if l.Most > l.Least && l.Cost == 1 {
		number := "limits"
		if strings.Contains(l.Limiter, ":burst=") {
			number = "bursts"
		}
		fmt.Fprintf(b, "        %s from %s to %s decide alike on this log\n", number, humanize.Grouped(l.Least), humanize.Grouped(l.Most))
	}
}
