package envoy

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shadowlimit/shadowlimit/policies"
)

// Bounds of one request. Entries hold what clients send, such as headers, and Envoy lets 60 KB of headers pass by default:
// a client must not be able to leave its limit by a long header, so the bound of a text is above that.
const (
	mostDescriptors = 100
	mostEntries     = 32
	mostText        = 64 << 10
	mostDomain      = 256
	// MostBytes is the size of a message that a server should take: grpc.MaxRecvMsgSize.
	MostBytes = 1 << 20
	// mostHits is the largest hits_addend of a whole request, which is also the bound for a descriptor's own.
	mostHits = math.MaxUint32
)

// requestsOf makes a request of each descriptor. Of a request with a mistake nothing is charged.
func requestsOf(r *rls.RateLimitRequest) ([]*policies.Request, error) {
	switch n := len(r.GetDescriptors()); {
	case r.GetDomain() == "":
		return nil, invalid("the request has no domain")
	case len(r.GetDomain()) > mostDomain:
		return nil, invalid("the domain has %d bytes, at most %d are taken", len(r.GetDomain()), mostDomain)
	case n == 0:
		return nil, invalid("the request has no descriptor")
	case n > mostDescriptors:
		return nil, invalid("%d descriptors, at most %d are taken", n, mostDescriptors)
	}

	now := time.Now()
	list := make([]*policies.Request, len(r.GetDescriptors()))
	for i, d := range r.GetDescriptors() {
		one, err := requestOf(r, d)
		if err != nil {
			return nil, invalid("descriptor %d: %w", i, err)
		}
		one.Time = now
		list[i] = one
	}
	return list, nil
}

func requestOf(r *rls.RateLimitRequest, d *ratelimitv3.RateLimitDescriptor) (*policies.Request, error) {
	entries := d.GetEntries()
	if len(entries) == 0 || len(entries) > mostEntries {
		return nil, fmt.Errorf("%d entries: a descriptor has 1 to %d", len(entries), mostEntries)
	}
	hits, err := hitsOf(r, d)
	if err != nil {
		return nil, err
	}

	p := &policies.Request{Domain: r.GetDomain(), Descriptors: make(map[string]string, len(entries)), Cost: &hits, Size: -1}
	names := make([]string, len(entries))
	for i, e := range entries {
		if len(e.GetKey()) > mostText || len(e.GetValue()) > mostText {
			return nil, fmt.Errorf("an entry has over %d bytes", mostText)
		}
		names[i] = unused(p.Descriptors, e.GetKey())
		p.Descriptors[names[i]] = e.GetValue()
	}
	p.Route = routeOf(names)
	return p, nil
}

// hitsOf returns the cost of a descriptor. Its own may be 0, which only looks; that of the whole request is 1 if it is 0,
// because it has always been (GetHitsAddends in src/utils/utilities.go of envoyproxy/ratelimit).
func hitsOf(r *rls.RateLimitRequest, d *ratelimitv3.RateLimitDescriptor) (int64, error) {
	if d.GetIsNegativeHits() {
		return 0, errors.New("is_negative_hits: no limit here gives back what it has counted")
	}

	own := d.GetHitsAddend()
	if own == nil {
		return max(1, int64(r.GetHitsAddend())), nil
	}
	if own.GetValue() > mostHits {
		return 0, fmt.Errorf("hits_addend %d: at most %d", own.GetValue(), uint64(mostHits))
	}
	return int64(own.GetValue()), nil
}

// unused returns a key, or for a key that the descriptor repeats the name that it has then: key#2.
func unused(entries map[string]string, key string) string {
	name := key
	for n := 2; ; n++ {
		if _, used := entries[name]; !used {
			return name
		}
		name = fmt.Sprintf("%s#%d", key, n)
	}
}

// separators keeps a key with a slash from looking like two keys.
var separators = strings.NewReplacer("%", "%25", "/", "%2F")

// routeOf writes the keys of a descriptor in their order: what configurations of envoyproxy/ratelimit nest.
func routeOf(names []string) string {
	escaped := make([]string, len(names))
	for i, name := range names {
		escaped[i] = separators.Replace(name)
	}
	return strings.Join(escaped, "/")
}

func invalid(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, "shadowlimit: "+fmt.Errorf(format, args...).Error())
}
