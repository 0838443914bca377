package integration

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

// windowCount names a count: of a key, in the window that began then.
type windowCount struct {
	key   string
	began int64
}

// kongPeriods are the begins of periods in UTC, as in kong/tools/timestamp.lua.
var kongPeriods = map[string]func(time.Time) time.Time{
	"second": func(at time.Time) time.Time { return at.Truncate(time.Second) },
	"minute": func(at time.Time) time.Time { return at.Truncate(time.Minute) },
	"month":  func(at time.Time) time.Time { return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC) },
	"year":   func(at time.Time) time.Time { return time.Date(at.Year(), 1, 1, 0, 0, 0, 0, time.UTC) },
}

// kongRule is kong/plugins/rate-limiting/handler.lua with policy local: the usage of all periods is read, one without a rest
// stops the request, and only an admitted request is counted, by all of them.
func kongRule(limits map[string]int) peerRule {
	type usage struct {
		period string
		windowCount
	}
	counts := map[usage]int{}
	return func(r *policies.Request, at time.Time) bool {
		var of []usage
		for period, limit := range limits {
			of = append(of, usage{period, windowCount{r.User, kongPeriods[period](at).Unix()}})
			if limit-counts[of[len(of)-1]] <= 0 {
				return false
			}
		}

		for _, u := range of {
			counts[u]++
		}
		return true
	}
}

// kongSliding is increment and sliding_window in kong/tools/public/rate-limiting/init.lua, in doubles and whole seconds. The
// plugin rate-limiting-advanced itself is not published: by its documentation it refuses what exceeds the limit, and counts that
// first, but with disable_penalty only what it lets through.
func kongSliding(limit int, size int64, penalty bool) peerRule {
	counts := map[windowCount]int{}
	return func(r *policies.Request, at time.Time) bool {
		now := at.Unix()
		window := windowCount{r.User, now / size * size}
		before := windowCount{r.User, window.began - size}

		weight := float64(size-now%size) / float64(size)
		allowed := float64(counts[before])*weight+float64(counts[window]+1) <= float64(limit)
		if allowed || penalty {
			counts[window]++
		}
		return allowed
	}
}

// On a log with parts of seconds Kong decides as its model does at the second before: the model lets the window before go all
// the time, and Kong once a second. It is never the stricter one.
func TestModelOfKongBetweenSeconds(t *testing.T) {
	t.Parallel()
	for path, least := range map[string]int{"/sliding": 98, "/forgiving": 89} {
		t.Run(path, func(t *testing.T) {
			peer := peerWithRule{gap: 150 * time.Millisecond, paths: []string{path}, rule: kongSliding(60, 60, path == "/sliding")}
			model, found := newPeerModel(t, "kong-advanced"), agreement{all: requestsOfARule}
			for _, r := range peer.draw(1) {
				r.allowed = peer.rule(&r.request, r.at)
				within := r.at.Sub(r.at.Truncate(time.Second))
				r.at = r.at.Truncate(time.Second)

				found.denied += refusals(*r)
				switch would := model.would(t, r, within); {
				case would == r.allowed:
					found.equal++
				case would:
					found.edge++
				}
				if model.allows(t, &r.request, r.at) != r.allowed {
					t.Fatalf("%s: the model decides otherwise at the second itself", r.at)
				}
			}

			t.Log(found)
			mustTell(t, found.denied)
			if found.equal+found.edge != found.all || found.equal < requestsOfARule*least/100 {
				t.Errorf("%s, want %d %%, and no request that only Kong allows", found, least)
			}
		})
	}
}
