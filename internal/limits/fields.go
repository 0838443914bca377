package limits

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Style is a style of response fields: httplimit.Fields, whose constants say what each one is.
type Style int

// The styles.
const (
	Draft08 Style = iota
	Draft06
	Legacy
	LegacyEpoch
	NoFields
)

// WriteFields writes the response fields of a decision that comes from no Limits.
func WriteFields(h http.Header, style Style, d *shadow.Decision) {
	(&fieldWriter{style: style}).write(h, d)
}

// fieldWriter writes response fields. The names of all fields are in this file only, except for Shadowlimit-Debug.
type fieldWriter struct {
	style    Style
	announce bool // the candidate's limit, too
	// texts are those of RateLimit-Policy that are kept. The map is replaced, and never changed, so requests read it without a lock.
	// nil means none yet.
	texts atomic.Pointer[map[policyField]string]
	// first is the first of them. Most services have one limit, and a comparison is faster than the map.
	first atomic.Pointer[policyText]
}

// policyText is a content of RateLimit-Policy with its text, and with the begin of the RateLimit of drafts from 08 on.
type policyText struct {
	policyField
	text, remaining string
}

// policyField is the content of RateLimit-Policy. Its text is kept, because most requests have one of a few limits.
type policyField struct {
	name     string
	enforced quota
	next     quota // that is announced; the zero quota is none
}

// quota is a limit as RateLimit-Policy has it. One of a window below a second has no true form, because windows are in whole seconds.
type quota struct {
	most   int64
	window time.Duration
}

// known reports whether a quota can be told.
func (q quota) known() bool { return q.window >= time.Second && q.most > 0 }

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
	ends   [5]int // of a value that stands in a text behind the others; 0 for one that share leaves alone
	count  int
}

// All returns the fields.
func (l *FieldList) All() []Field { return l.fields[:l.count] }

func (l *FieldList) add(name *policies.HeaderName, value string) {
	l.fields[l.count] = Field{name, value}
	l.count++
}

// addNumber appends the value of a field to the values that were written before.
func (l *FieldList) addNumber(b []byte, name *policies.HeaderName, value int64) []byte {
	return l.addWritten(strconv.AppendInt(b, value, 10), name)
}

// addWritten adds a field whose value ends the written ones.
func (l *FieldList) addWritten(b []byte, name *policies.HeaderName) []byte {
	l.ends[l.count] = len(b)
	l.add(name, "")
	return b
}

// share gives the fields their parts of the text of all written values.
func (l *FieldList) share(text string) {
	begin := 0
	for i := range l.All() {
		if end := l.ends[i]; end > 0 {
			l.fields[i].Value = text[begin:end]
			begin = end
		}
	}
}

// fieldBytes is room for the written values of a response, whose longest has a name of 100 characters and two numbers.
const fieldBytes = 160

// list returns the fields of a decision, whose written values are in one allocation.
func (f *fieldWriter) list(list *FieldList, d *shadow.Decision) {
	var room [fieldBytes]byte
	list.share(string(f.fill(list, d, room[:0])))
}

// response has the values of a response's fields in one allocation. Most responses have two, which are short; more or longer ones
// take another.
type response struct {
	values [2]string
	room   [64]byte
}

// write writes the fields of the enforced side's decision.
func (f *fieldWriter) write(h http.Header, d *shadow.Decision) {
	if d.Allowed && (d.Policy == "" || d.Remaining < 0 && !f.announce || f.style == NoFields) {
		return
	}

	// The texts are parts of the room, where nothing is written any more.
	var list FieldList
	r := new(response)
	written := f.fill(&list, d, r.room[:0])
	list.share(unsafe.String(unsafe.SliceData(written), len(written)))

	// Each field has a slice without spare capacity, so that a handler that appends to one does not write into the next.
	values := r.values[:0]
	for _, field := range list.All() {
		values = append(values, field.Value)
		last := len(values) - 1
		h[field.Name.Canonical] = values[last : last+1 : last+1]
	}
}

// fill adds the fields of the enforced side's decision to an empty list, and appends to b the values of those that share gives them. The
// caller has the list, because it is expensive to copy.
func (f *fieldWriter) fill(list *FieldList, d *shadow.Decision, b []byte) []byte {
	if !d.Allowed && d.RetryAfter > 0 && d.RetryAfter != algorithms.Never {
		b = list.addNumber(b, retryAfter, seconds(d.RetryAfter))
	}

	// No policy has matched, or the enforced limiter does not know what remains. There may be none before a first limit, which
	// is announced all the same.
	switch {
	case d.Policy == "":
		return b
	case d.Remaining < 0:
		if f.announce && (f.style == Draft08 || f.style == Draft06) {
			f.addPolicy(list, d)
		}
		return b
	}

	more := d.MoreAfter()
	switch f.style {
	case Draft08:
		b = f.drafts08(list, d, b, more)

	case Draft06:
		f.addPolicy(list, d)
		b = list.addNumber(b, rateLimitLimit, max(d.Capacity, 0))
		b = list.addNumber(b, rateLimitRemaining, d.Remaining)
		if more != algorithms.Never {
			b = list.addNumber(b, rateLimitReset, seconds(more))
		}

	case Legacy, LegacyEpoch:
		b = list.addNumber(b, legacyLimit, max(d.Capacity, 0))
		b = list.addNumber(b, legacyRemaining, d.Remaining)
		switch {
		case more == algorithms.Never:
		case f.style == LegacyEpoch:
			b = list.addNumber(b, legacyReset, second(time.Now().Add(more)))
		default:
			b = list.addNumber(b, legacyReset, seconds(more))
		}
	}
	return b
}

// drafts08 adds both fields of the drafts from 08 on.
func (f *fieldWriter) drafts08(list *FieldList, d *shadow.Decision, b []byte, more time.Duration) []byte {
	// Most services have one limit, whose texts are ready.
	if first := f.first.Load(); first != nil && first.policyField == f.policyOf(d) {
		list.add(rateLimitPolicy, first.text)
		b = append(b, first.remaining...)
	} else {
		f.addPolicy(list, d)
		b = beginRemaining(b, d.Policy)
	}

	b = strconv.AppendInt(b, min(d.Remaining, largestInteger), 10)
	if more != algorithms.Never {
		b = strconv.AppendInt(append(b, ";t="...), seconds(more), 10)
	}
	return list.addWritten(b, rateLimit)
}

// beginRemaining writes RateLimit up to its first number.
func beginRemaining(b []byte, name string) []byte { return append(appendName(b, name), ";r="...) }

// policyOf returns the content of RateLimit-Policy: with a name as in the drafts from 08 on, and without one as in the earlier ones.
func (f *fieldWriter) policyOf(d *shadow.Decision) (p policyField) {
	if f.style == Draft08 {
		p.name = d.Policy
	}
	if d.Remaining >= 0 {
		p.enforced = quota{d.Limit, d.Window}
	}
	if f.announce && d.Enforced == algorithms.Authoritative {
		limit := d.UnenforcedLimit()
		p.next = quota{limit.Requests, limit.Window}
	}
	return p
}

// addPolicy adds RateLimit-Policy, unless no limit of it can be told.
func (f *fieldWriter) addPolicy(list *FieldList, d *shadow.Decision) {
	if p := f.policyOf(d); p.enforced.known() || p.next.known() {
		list.add(rateLimitPolicy, f.policy(p))
	}
}

// policy returns the value of RateLimit-Policy.
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
	if p.enforced.known() {
		b = p.enforced.append(b, p.name)
	}
	if p.next.known() {
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		name := p.name
		if name != "" {
			name += announced
		}
		b = p.next.append(b, name)
	}
	text := string(b)

	f.first.CompareAndSwap(nil, &policyText{p, text, string(beginRemaining(nil, p.name))})
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

// announced follows the name of a policy whose candidate is announced. No policy has a colon in its name.
const announced = ":candidate"

// append appends one limit of RateLimit-Policy.
func (q quota) append(b []byte, name string) []byte {
	if name != "" {
		b = append(appendName(b, name), ";q="...)
	}
	b = append(strconv.AppendInt(b, min(q.most, largestInteger), 10), ";w="...)
	return strconv.AppendInt(b, seconds(q.window), 10)
}

// appendName writes a policy's name as a String of RFC 9651. Names have no character that needs an escape.
func appendName(b []byte, name string) []byte {
	return append(append(append(b, '"'), name...), '"')
}

// seconds rounds up, because a client that returns too early is denied again. The time of a custom limiter may be
// negative, which counts as 0.
func seconds(d time.Duration) int64 {
	whole := int64(max(d, 0) / time.Second)
	if d > 0 && d%time.Second > 0 {
		whole++
	}

	return whole
}

// second returns the first whole second since 1970 that is no earlier than an instant: a client that comes in the second
// of the instant itself may come too early.
func second(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
