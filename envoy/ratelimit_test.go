package envoy_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shadowlimit/shadowlimit/envoy"
	"github.com/shadowlimit/shadowlimit/internal/importer"
)

// configuration is one of envoyproxy/ratelimit, with values, wildcards of every kind, counts that are shared, defaults, levels, a value
// without a limit, a key that repeats, and a limit of 0.
const configuration = `
domain: edge
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 6 }
  - key: user
    value: ann
    rate_limit: { unit: hour, requests_per_unit: 9 }
    descriptors:
      - key: path
        rate_limit: { unit: second, requests_per_unit: 2 }
      - key: path
        value: /admin*
        rate_limit: { unit: day, requests_per_unit: 3 }
      - key: path
        value: /admin/ban
        rate_limit: { unit: minute, requests_per_unit: 0 }
  - key: user
    value: root
  - key: user
    value: bot*
    rate_limit: { unit: second, requests_per_unit: 1 }
  - key: generic_key
    value: a
    descriptors:
      - key: generic_key
        value: b
        rate_limit: { unit: minute, requests_per_unit: 4 }
      - key: user
        rate_limit: { unit: week, requests_per_unit: 50 }
  - key: file
    rate_limit: { unit: minute, requests_per_unit: 7 }
  - key: file
    value: /a/*.go
    share_threshold: true
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: file
    value: /a/*
    share_threshold: true
    rate_limit: { unit: minute, requests_per_unit: 20 }
    descriptors:
      - key: user
        rate_limit: { unit: minute, requests_per_unit: 2 }
  - key: file
    value: "*b*go"
    rate_limit: { unit: minute, requests_per_unit: 3 }
`

// node is a descriptor of the configuration, as envoyproxy/ratelimit keeps it: children by key_value, or by key for a default.
type node struct {
	limit     uint32
	unit      int64 // seconds; 0 without a limit
	children  map[string]*node
	wildcards []string // of the children, in their order
}

// shared are the wildcards with share_threshold.
var shared = map[string]bool{"file_/a/*.go": true, "file_/a/*": true}

func leaf(limit uint32, unit int64) *node { return &node{limit: limit, unit: unit} }

// tree is the configuration once more, written by hand: the importer is a part of what is tested.
var tree = &node{wildcards: []string{"user_bot*", "file_/a/*.go", "file_/a/*", "file_*b*go"}, children: map[string]*node{
	"user": leaf(6, 60),
	"user_ann": {limit: 9, unit: 3600, wildcards: []string{"path_/admin*"}, children: map[string]*node{
		"path": leaf(2, 1), "path_/admin*": leaf(3, 86400), "path_/admin/ban": leaf(0, 60),
	}},
	"file": leaf(7, 60), "file_/a/*.go": leaf(5, 60), "file_*b*go": leaf(3, 60),
	"file_/a/*": {limit: 20, unit: 60, children: map[string]*node{"user": leaf(2, 60)}},
	"user_root": {}, "user_bot*": leaf(1, 1),
	"generic_key_a": {children: map[string]*node{"generic_key_b": leaf(4, 60), "user": leaf(50, 7*86400)}},
}}

// find is GetLimit of src/config/config_impl.go: a value before a wildcard before a default, no way back from a level, and a
// limit only at the last entry. key is what the count is of: where a count is shared, the wildcard stands in the place of the value.
func find(d *ratelimitv3.RateLimitDescriptor) (n *node, key string) {
	at := tree
	for i, e := range d.Entries {
		sent := e.Key + "_" + e.Value
		next := at.children[sent]
		for _, wildcard := range at.wildcards {
			if next == nil && takes(wildcard, sent) {
				next = at.children[wildcard]
				if shared[wildcard] {
					sent = wildcard
				}
			}
		}
		if next == nil {
			next = at.children[e.Key]
		}
		key += "_" + sent

		switch {
		case next == nil:
			return nil, ""
		case i == len(d.Entries)-1 && next.unit > 0:
			return next, key
		case len(next.children) == 0:
			return nil, ""
		}
		at = next
	}
	return nil, ""
}

// takes reports whether a text is the pattern with any text for each star.
func takes(pattern, text string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star || !strings.HasPrefix(text, before) {
		return pattern == text
	}
	for i := len(before); i <= len(text); i++ {
		if takes(after, text[i:]) {
			return true
		}
	}
	return false
}

// counters are the keys of Redis, with the beginning of their window (src/limiter/cache_key.go).
type counters map[string]uint64

// judge is src/limiter/base_limiter.go: the count is raised whatever comes of it, and is over when it is above the limit. The
// one difference that is documented: a request of 0 hits is over its limit from the last unit on, and not from the next.
func (c counters) judge(d *ratelimitv3.RateLimitDescriptor, hits uint64, now int64) (isOver bool, remaining uint32, reset int64) {
	n, key := find(d)
	if n == nil {
		return false, 0, 0
	}

	key += time.Unix(now/n.unit*n.unit, 0).UTC().String()
	c[key] += hits
	after := c[key]

	isOver = after > uint64(n.limit) || hits == 0 && after == uint64(n.limit)
	if after < uint64(n.limit) {
		remaining = n.limit - uint32(after)
	}
	return isOver, remaining, n.unit - now%n.unit
}

// drawDescriptor draws a descriptor of one to three entries, most of which the configuration knows.
func drawDescriptor(draw *rand.Rand) *ratelimitv3.RateLimitDescriptor {
	shapes := [][]string{
		{"user"}, {"user"}, {"user", "path"}, {"user", "path"}, {"generic_key", "generic_key"}, {"generic_key", "user"}, {"path"},
		{"path", "user"}, {"generic_key"}, {"file"}, {"file"}, {"file"}, {"file", "user"}, {"user", "path", "user"}, {"generic_key", "generic_key", "generic_key"},
	}
	values := map[string][]string{
		"user": {"ann", "bob", "root", "bot", "bot7", "", "anna"},
		"path": {"/", "/admin", "/admin/ban", "/admin/x", "/adm"}, "generic_key": {"a", "b", "c"},
		"file": {"/a/x.go", "/a/y.go", "/a/", "/a/z", "/a/.go", "b.go", "bgo", "/b/go", "xbgog", "/a", "/a/*.go", "/a/*", "*b*go", "a\nb\ngo"},
	}

	d := &ratelimitv3.RateLimitDescriptor{}
	for _, key := range shapes[draw.IntN(len(shapes))] {
		of := values[key]
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: key, Value: of[draw.IntN(len(of))]})
	}
	if draw.IntN(4) == 0 {
		d.HitsAddend = wrapperspb.UInt64(draw.Uint64N(2))
	}
	return d
}

// An imported configuration of envoyproxy/ratelimit decides as it did, for 100,000 random descriptors in requests of up to four. None has
// several hits: ratelimit counts them when it denies them, too.
func TestServiceDecidesAsRatelimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	imported, err := importer.Read("envoy", []string{file}, "")
	if err != nil || len(imported.LeftOut) > 0 {
		t.Fatalf("%v, left out: %v", err, imported.LeftOut)
	}

	now := time.Unix(1_772_000_000, 0)
	service := envoy.New(harnessOf(t, imported.File, func() time.Time { return now }), envoy.Config{})
	draw, counts := rand.New(rand.NewPCG(3, 4)), counters{}
	for done := 0; done < 100_000; {
		now = now.Add(time.Duration(draw.ExpFloat64() * float64(200*time.Millisecond)).Truncate(time.Microsecond))
		if draw.IntN(5000) == 0 {
			now = now.Add(time.Duration(draw.IntN(30)) * time.Hour)
		}
		r := requestOf()
		r.HitsAddend = draw.Uint32N(2)
		for range 1 + draw.IntN(4) {
			r.Descriptors = append(r.Descriptors, drawDescriptor(draw))
		}
		done += len(r.Descriptors)

		answer, err := service.ShouldRateLimit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		overall := ok
		for i, d := range r.Descriptors {
			hits := uint64(max(1, r.HitsAddend))
			if d.HitsAddend != nil {
				hits = d.HitsAddend.Value
			}
			n, _ := find(d)
			limited := n != nil
			isOver, remaining, reset := counts.judge(d, hits, now.Unix())
			want := ok
			if isOver {
				want, overall = over, over
			}

			got := answer.Statuses[i]
			if got.Code != want || got.LimitRemaining != remaining || (got.DurationUntilReset != nil) != limited {
				t.Fatalf("after %d, %v with %d hits: %v, want %v and %d left", done, d, hits, got, want, remaining)
			}
			// A window that nothing has used yet needs no reset here, and the answer is no rounded one.
			seconds := int64((got.DurationUntilReset.AsDuration() + time.Second - 1) / time.Second)
			if limited && hits > 0 && n.limit > 0 && seconds != reset {
				t.Fatalf("after %d, %v: reset in %v, want %d s", done, d, got.DurationUntilReset.AsDuration(), reset)
			}
		}
		if answer.OverallCode != overall {
			t.Fatalf("after %d: %v, want %v", done, answer.OverallCode, overall)
		}
	}
}
