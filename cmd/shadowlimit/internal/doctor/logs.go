package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const mib = 1 << 20

// logs compares what the logs of all policies may take with the memory of the servers. It is a bound: each key that the
// evidence has seen has a full log.
func logs(policies []promotion.Assessment, nodes []*node) []Finding {
	bytes, largest := 0.0, ""
	for i, most := 0, 0.0; i < len(policies); i++ {
		a := &policies[i]
		keys := a.Evidence.History.Distinct[divergence.KeysSeen]
		its := float64(keys) * float64(logBytes(a.Spec.Authoritative)+logBytes(a.Spec.Candidate))
		if bytes += its; its > most {
			most, largest = its, fmt.Sprintf("policy %s with %s", a.Spec.Policy, humanize.Counted(keys, "key"))
		}
	}
	if bytes == 0 {
		return nil
	}

	// A server without a bound is bounded by its machine, whose memory is not known here.
	bound := 0.0
	for _, n := range nodes {
		most, err := strconv.ParseFloat(n.info["maxmemory"], 64)
		if err != nil || most == 0 {
			bound = 0
			break
		}
		bound += most
	}

	f := Finding{Check: "logs", Level: fine, Message: fmt.Sprintf(
		"the logs of sliding_window_log may take %.0f MiB, most of it %s", bytes/mib, largest)}
	switch {
	case bound == 0:
		f.Message += "; maxmemory is not known or not set, so compare that with the machine's memory"
	case bytes >= nearlyFull*bound:
		f.Level, f.Fix = warning, "raise maxmemory, or use sliding_window_counter or gcra, which store a few numbers a key"
		f.Message += fmt.Sprintf("; maxmemory is %.0f MiB", bound/mib)
	default:
		f.Message += fmt.Sprintf(" of %.0f MiB", bound/mib)
	}
	return []Finding{f}
}

// logBytes returns how much a key's log may take in this Redis, for a side as instances announce it: in the short form
// of the command line, and "in STORE" behind it if it lies in another Redis.
func logBytes(side string) int64 {
	limit, found := strings.CutPrefix(side, algorithms.SlidingWindowLog{}.Name()+":")
	if !found || strings.Contains(side, " in ") {
		return 0
	}

	// Of a limit that an expression decides only the bound of a log is known.
	entries := int64(algorithms.DefaultMaxEntries)
	requests, _, _ := strings.Cut(limit, "/")
	if n, err := strconv.ParseInt(requests, 10, 64); err == nil {
		entries = min(entries, n)
	}
	return entries * algorithms.LogEntryBytes
}
