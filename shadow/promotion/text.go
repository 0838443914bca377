package promotion

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// WriteText writes the verdict and what it rests on for people.
func (g *Gate) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "gate: %s\n  %s\n", g.Verdict, g.Reason)
	if g.Warning != "" {
		fmt.Fprintf(w, "  WARNING: %s\n", g.Warning)
	}
	fmt.Fprintf(w, "  %.4g h clean, %s within 7 days\n", g.CleanHours, divergence.Counted(int64(g.Strikes), "strike"))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "  \tratio\tthreshold\tscore (%d)\tsurely below\t\n", enough)
	for _, r := range divergence.AllRatios {
		part := g.Ratio(r)
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t\n", r, optional(part.Ratio), divergence.Percent(part.Threshold), scoreText(part.Score), optional(part.UpperBound))
	}
	if err := table.Flush(); err != nil || g.Noise == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "  noise floor: the authoritative differs from a copy of itself in %s of comparisons\n", divergence.Percent(*g.Noise))
	return err
}

func scoreText(score float64) string {
	if score > 9999 {
		return ">9999"
	}
	return fmt.Sprintf("%.4g", score)
}

func optional(v *float64) string {
	if v == nil {
		return "-"
	}
	return divergence.Percent(*v)
}
