package policies

import (
	"cmp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// The gate's constants, as far as they decide what can be reached at all: every
// hour of the day must have been seen, and a threshold below 1/9 takes a score of
// 20, which are 20 blocks without any difference.
const (
	leastSoak     = 24 * time.Hour
	leastBlocks   = 20
	evidenceIsFor = 32 * 24 * time.Hour
)

// promotion looks at a section about promotion.
func (l *linter) promotion(p Promotion, at *yaml.Node) {
	soak := cmp.Or(p.Soak, 2*leastSoak)
	if p.Sample > 0 && p.Sample < 1 && p.Mode == "automatic" {
		l.warn(at, "sample: a sampled policy does not leave shadow: mode automatic moves nothing; leave one of them out")
	}
	l.expectEverything(p, at)
	switch {
	case soak < leastSoak:
		l.warn(at, "soak: every hour of the day must have been seen, so nothing passes before 24h: %s is as good as 24h", algorithms.FormatWindow(soak))
	case p.Block > soak:
		l.warn(at, "block: no block of %s ends within a soak of %s: take shorter blocks", algorithms.FormatWindow(p.Block), algorithms.FormatWindow(soak))
	}
	if p.Block*leastBlocks > evidenceIsFor { // divergence and newly denied are seldom above 1/9
		l.warn(at, "block: the thresholds cannot be reached: that takes at least %d blocks of %s, and evidence is kept for 32 days", leastBlocks, algorithms.FormatWindow(p.Block))
	}
	if denials := cmp.Or(p.MinDenials, 200); p.MinDeniedKeys > denials {
		l.warn(at, "min_denied_keys: %d keys are not denied in fewer than %d denials: min_denials %d decides nothing", p.MinDeniedKeys, p.MinDeniedKeys, denials)
	}
}

// expectEverything warns of a declaration that leaves no evidence in its direction.
func (l *linter) expectEverything(p Promotion, at *yaml.Node) {
	for _, x := range p.expected {
		if x.when != nil && strings.TrimSpace(x.when.source) == "true" {
			l.warn(at, "expected: when: true declares every difference in the direction %s, so none counts against the candidate: "+
				"name the requests for which it is wanted, or ask its owner, %s", x.direction, x.owner)
		}
	}
}
