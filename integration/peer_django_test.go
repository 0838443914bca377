package integration

import (
	"hash/crc32"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

// djangoRule is django_ratelimit/core.py: a window is named by the second with which it ends.
func djangoRule(limit int, period int64) peerRule {
	counts := map[windowCount]int{}
	return func(r *policies.Request, at time.Time) bool {
		now := at.Unix()
		end := now - now%period + int64(crc32.ChecksumIEEE([]byte(r.User)))%period
		if end < now {
			end += period
		}
		if period == 1 {
			end = now
		}

		of := windowCount{r.User, end}
		counts[of]++
		return counts[of] <= limit
	}
}

// The second of a window's end belongs to it in django-ratelimit, and to the next one in the model. That is the only difference: with
// requests that come one second earlier, the model decides all of them as django-ratelimit does.
func TestModelOfDjango(t *testing.T) {
	t.Parallel()
	for name, earlier := range map[string]time.Duration{"as they come": 0, "one second earlier": time.Second} {
		t.Run(name, func(t *testing.T) {
			peer, found := peerWithRule{gap: 400 * time.Millisecond, paths: []string{"/minute"}}, agreement{all: requestsOfARule}
			model, rule := newPeerModel(t, "django-ratelimit"), djangoRule(20, 60)
			for _, r := range peer.draw(1) {
				r.allowed = rule(&r.request, r.at)
				found.denied += refusals(*r)
				if model.allows(t, &r.request, r.at.Add(-earlier)) == r.allowed {
					found.equal++
				}
			}

			t.Log(found)
			mustTell(t, found.denied)
			if least := map[time.Duration]int{0: 97, time.Second: 100}[earlier]; found.equal < requestsOfARule*least/100 {
				t.Errorf("%s, want %d %%", found, least)
			}
		})
	}
}
