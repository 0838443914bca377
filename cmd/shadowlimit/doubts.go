package main

import (
	"fmt"
	"slices"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// warnings say what of the logs themselves looks wrong.
func (l *logsRead) warnings(cfg accesslog.Config) (list []string) {
	for i, result := range l.results {
		if result.Zoned && cfg.Zone == nil && result.Events > 0 {
			list = append(list, fmt.Sprintf("%s: its times have no zone and are taken for UTC: --time-zone names another", l.names[i]))
		}

		if cfg.Client == nil && cfg.Map["ip"] == "" && float64(result.Edges) >= manyEdges*float64(result.Events) && result.Edges > 0 {
			list = append(list, fmt.Sprintf("%s: %s of %s are from a public address with another client in X-Forwarded-For: "+
				"if these addresses are of a CDN or a balancer, name them by --trusted-proxies, as they are taken for clients",
				l.names[i], humanize.Grouped(result.Edges), humanize.Counted(result.Events, "request")))
		}

		// Lines that are the same a hundred times over are one log, under another name or packed.
		same := slices.IndexFunc(l.results[:i], func(r accesslog.Result) bool { return r.Sum == result.Sum && r.Sum != 0 })
		if same >= 0 {
			list = append(list, fmt.Sprintf("%s begins with the same lines as %s: if it is one log, leave one out, as its requests count twice",
				l.names[i], l.names[same]))
		}
	}

	// A log of two formats is read by one of them, so a report of a part of the requests looks like one of all.
	if float64(l.skipped) >= manySkipped*float64(l.lines) && l.skipped > 0 {
		list = append(list, fmt.Sprintf("%s of %s could not be read, so the report is of a part of the requests: see the skipped lines",
			humanize.Grouped(l.skipped), humanize.Counted(l.lines, "line")))
	}
	return list
}

// manyEdges is the share of requests that come with an X-Forwarded-For which clients and their own proxies have written, or less.
const manyEdges = 0.1

// manySkipped is the share of lines that a log has beside those of its format, such as remains of another file, or less.
const manySkipped = 0.1

const (
	// fewEvents is how many requests must be there before a key can have too large a share of them.
	fewEvents = 100
	// largeShare is the share that no key of real traffic has.
	largeShare = 0.5
)
