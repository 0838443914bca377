package envoy

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// metadataOf is what both sides of each policy have answered, by the policies' names; nil if no policy has two sides. Envoy
// keeps it as the dynamic metadata envoy.filters.http.ratelimit, which no client sees. Of descriptors with one policy it is the
// last on which the sides differ, else the first.
func metadataOf(decisions []shadow.Decision) *structpb.Struct {
	var all *structpb.Struct
	for i := range decisions {
		d := &decisions[i]
		if d.Policy == "" || d.Unenforced().Status == algorithms.NotAsked {
			continue
		}
		if all == nil {
			all = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		}
		if _, there := all.Fields[d.Policy]; !there || differs(d) {
			all.Fields[d.Policy] = structpb.NewStructValue(answersOf(d))
		}
	}
	return all
}

// differs reports whether both sides have answered, and not the same.
func differs(d *shadow.Decision) bool {
	o := d.Unenforced()
	return o.Status == algorithms.Judged && o.Decision.Allowed != d.Allowed
}

func answersOf(d *shadow.Decision) *structpb.Struct {
	other := d.Unenforced().Status.String()
	if d.Unenforced().Status == algorithms.Judged {
		other = word(d.Unenforced().Decision.Allowed)
	}
	fields := map[string]*structpb.Value{
		"enforced":                  structpb.NewStringValue(d.Enforced.String()),
		d.Enforced.String():         structpb.NewStringValue(word(d.Allowed)),
		d.Enforced.Other().String(): structpb.NewStringValue(other),
	}
	if d.Fallback {
		fields["fallback"] = structpb.NewBoolValue(true)
	}
	return &structpb.Struct{Fields: fields}
}

func word(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// upstreamField is the name of limits.DebugField in HTTP/2.
var upstreamField = strings.ToLower(limits.DebugField)

// upstreamOf is the header field that tells the service behind Envoy both sides of a decision, none without a policy.
func upstreamOf(d shadow.Decision) []*corev3.HeaderValue {
	if d.Policy == "" {
		return nil
	}
	return []*corev3.HeaderValue{{Key: upstreamField, Value: limits.Debug(d)}}
}
