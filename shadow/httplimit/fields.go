package httplimit

import (
	"cmp"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Fields is a style of response fields that tell a client its limit. In every style a denial has Retry-After, unless no
// wait would help.
type Fields int

const (
	// FieldsDraft08 are RateLimit-Policy and RateLimit as in the drafts 08 to 11 of RateLimit header fields for HTTP:
	// "name";q=100;w=60 and "name";r=42;t=7.
	FieldsDraft08 Fields = iota
	// FieldsDraft06 are RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset in seconds from now, and
	// RateLimit-Policy, as in the drafts up to 06.
	FieldsDraft06
	// FieldsLegacy are X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset in seconds from now, as Envoy and
	// Reddit send them.
	FieldsLegacy
	// FieldsLegacyEpoch is FieldsLegacy with the reset in seconds since 1970, as GitHub and chi send it.
	FieldsLegacyEpoch
	// FieldsNone writes no field but Retry-After.
	FieldsNone
)

// Write writes the fields of a decision, for services without the middleware, such as users of a shadow.Pair.
func (f Fields) Write(h http.Header, d shadow.Decision) { (&fieldWriter{style: f}).write(h, &d) }

// fieldWriter writes response fields. The names of all fields are in this file only, except for Shadowlimit-Debug.
type fieldWriter struct {
	style Fields
	// texts are those of RateLimit-Policy that are kept. The map is replaced, and never changed, so requests read it without a lock.
	// nil means none yet.
	texts atomic.Pointer[map[policyField]string]
	// first is the first of them. Most services have one limit, and a comparison is faster than the map.
	first atomic.Pointer[policyText]
}

// policyText is a content of RateLimit-Policy with its text.
type policyText struct {
	policyField
	text string
}

// policyField is the content of RateLimit-Policy. Its text is kept, because most requests have one of a few limits.
type policyField struct {
	name   string
	quota  int64
	window time.Duration
}

// mostPolicyFields bounds the texts of RateLimit-Policy that are kept: limits may come from expressions, and there may
// be any number of them.
const mostPolicyFields = 1024

// largestInteger is the largest Integer of RFC 9651. A client ignores a whole field with a larger one.
const largestInteger = 999_999_999_999_999

// Field is one response field. Its name is shared by all fields of that name, and is only read.
type Field struct {
	Name  *policies.HeaderName
	Value string
}

var (
	retryAfter         = named("Retry-After")
	rateLimit          = named("Ratelimit")
	rateLimitPolicy    = named("Ratelimit-Policy")
	rateLimitLimit     = named("Ratelimit-Limit")
	rateLimitRemaining = named("Ratelimit-Remaining")
	rateLimitReset     = named("Ratelimit-Reset")
	legacyLimit        = named("X-Ratelimit-Limit")
	legacyRemaining    = named("X-Ratelimit-Remaining")
	legacyReset        = named("X-Ratelimit-Reset")
)

// named returns the name of a field, whose canonical form is that of http.Header.
func named(canonical string) *policies.HeaderName {
	return &policies.HeaderName{Lower: strings.ToLower(canonical), Canonical: canonical}
}

// FieldList are the response fields of one decision: at most five, so that they need no allocation of their own.
type FieldList struct {
	fields [5]Field
	count  int
}

// All returns the fields.
func (l *FieldList) All() []Field { return l.fields[:l.count] }

func (l *FieldList) add(name *policies.HeaderName, value string) {
	l.fields[l.count] = Field{name, value}
	l.count++
}

// write writes the fields of the enforced side's decision.
func (f *fieldWriter) write(h http.Header, d *shadow.Decision) {
	var list FieldList
	f.fill(&list, d)
	if list.count == 0 {
		return
	}

	// The values of all fields are in one allocation. Each field has a slice without spare capacity, so that a handler
	// that appends to one does not write into the next.
	values := make([]string, list.count)
	for i, field := range list.All() {
		values[i] = field.Value
		h[field.Name.Canonical] = values[i : i+1 : i+1]
	}
}

// fill adds the fields of the enforced side's decision to an empty list. The caller has the list, because it is dear to copy.
func (f *fieldWriter) fill(list *FieldList, d *shadow.Decision) {
	if !d.Allowed && d.RetryAfter > 0 && d.RetryAfter != algorithms.Never {
		list.add(retryAfter, FormatSeconds(d.RetryAfter))
	}

	// No policy has matched, or the enforced limiter does not know what remains.
	if d.Policy == "" || d.Remaining < 0 {
		return
	}

	reset := seconds(untilMore(d))
	switch f.style {
	case FieldsDraft08:
		if text := f.policies(d, true); text != "" {
			list.add(rateLimitPolicy, text)
		}
		list.add(rateLimit, remaining(d, reset))

	case FieldsDraft06:
		if text := f.policies(d, false); text != "" {
			list.add(rateLimitPolicy, text)
		}
		list.add(rateLimitLimit, strconv.FormatInt(max(d.Limit, 0), 10))
		list.add(rateLimitRemaining, strconv.FormatInt(d.Remaining, 10))
		list.add(rateLimitReset, strconv.FormatInt(reset, 10))

	case FieldsLegacy, FieldsLegacyEpoch:
		if f.style == FieldsLegacyEpoch {
			reset += time.Now().Unix()
		}
		list.add(legacyLimit, strconv.FormatInt(max(d.Limit, 0), 10))
		list.add(legacyRemaining, strconv.FormatInt(d.Remaining, 10))
		list.add(legacyReset, strconv.FormatInt(reset, 10))
	}
}

// remaining writes RateLimit of the drafts from 08 on. Where no wait would help, it has no time.
func remaining(d *shadow.Decision, reset int64) string {
	b := append(appendName(make([]byte, 0, 160), cmp.Or(d.Member, d.Policy)), ";r="...)
	b = strconv.AppendInt(b, min(d.Remaining, largestInteger), 10)
	if d.Allowed || d.RetryAfter != algorithms.Never {
		b = strconv.AppendInt(append(b, ";t="...), reset, 10)
	}
	return string(b)
}

// policies returns the value of RateLimit-Policy, of a group with all members of the charge; "" if no limit has a form.
func (f *fieldWriter) policies(d *shadow.Decision, named bool) string {
	if d.Group == nil {
		return f.policyOf(d.Policy, d.Quota, d.Window, named)
	}

	list := make([]string, 0, len(d.Group.Members))
	for i := range d.Group.Members {
		m := &d.Group.Members[i]
		if text := f.policyOf(m.Name, m.Limit.Requests, m.Limit.Window, named); text != "" {
			list = append(list, text)
		}
	}
	return strings.Join(list, ", ")
}

// policyOf returns one limit of RateLimit-Policy, which has windows in whole seconds. A shorter one has no true form, and is
// left out.
func (f *fieldWriter) policyOf(name string, quota int64, window time.Duration, named bool) string {
	if window < time.Second || quota <= 0 {
		return ""
	}
	if !named {
		name = ""
	}
	return f.policy(policyField{name, quota, window})
}

// policy returns one limit of RateLimit-Policy: as in the drafts from 08 on if it has a name, else as in the earlier
// ones.
func (f *fieldWriter) policy(p policyField) string {
	if first := f.first.Load(); first != nil && first.policyField == p {
		return first.text
	}
	known := f.texts.Load()
	if known != nil {
		if text, ok := (*known)[p]; ok {
			return text
		}
	}

	var b []byte
	if p.name != "" {
		b = append(appendName(b, p.name), ";q="...)
	}
	b = append(strconv.AppendInt(b, min(p.quota, largestInteger), 10), ";w="...)
	text := string(strconv.AppendInt(b, seconds(p.window), 10))

	f.first.CompareAndSwap(nil, &policyText{p, text})
	next := map[policyField]string{p: text}
	if known != nil {
		if len(*known) >= mostPolicyFields {
			return text
		}
		maps.Copy(next, *known)
	}

	// The loser of the race adds its entry on its next request.
	f.texts.CompareAndSwap(known, &next)

	return text
}

// appendName writes a policy's name as a String of RFC 9651. Names have no character that needs an escape.
func appendName(b []byte, name string) []byte {
	return append(append(append(b, '"'), name...), '"')
}

// untilMore returns the time until there is more quota. For a denial it is the time until this request would be
// allowed, so that the reset and Retry-After do not contradict each other.
func untilMore(d *shadow.Decision) time.Duration {
	if !d.Allowed && d.RetryAfter != algorithms.Never {
		return d.RetryAfter
	}

	return d.ResetAfter
}

// seconds rounds up, because a client that returns too early is denied again. The time of a foreign limiter may be
// negative, which counts as 0.
func seconds(d time.Duration) int64 {
	whole := int64(max(d, 0) / time.Second)
	if d > 0 && d%time.Second > 0 {
		whole++
	}

	return whole
}
