// Package limits is what the middleware of every framework has in common: the policies' view of a request, the decision, the
// response fields, and the wait for a turn in a leaky bucket. Package httplimit and the adapters of frameworks are made of it.
package limits

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Limits are the limits of one middleware. The order of a request is Request or RequestOf, Decide, the fields, and Wait for the
// decision's Delay. All methods may be called concurrently.
type Limits struct {
	decider  decider
	harness  *shadow.Harness           // the decider, if it is one: a call by an interface would move decisions to the heap
	policies func() *policies.Set      // in use; nil if the decider has none
	served   func(time.Duration, bool) // nil if the decider has none
	settings Settings
	jitter   float64 // 0 to 1
	fields   fieldWriter
	waiting  atomic.Int64 // requests that wait for their turn in a leaky bucket
}

// Settings are the part of a middleware's configuration that no framework changes. They have the meaning of the fields
// of httplimit.Config with the same names.
type Settings struct {
	ClientIP    func(*http.Request) string
	Fields      Style
	Announce    bool
	RetryJitter float64
	MaxWaiting  int64
}

// decider is httplimit.Decider.
type decider interface {
	Decide(context.Context, *policies.Request) shadow.Decision
}

// New returns the limits of one middleware.
func New(by decider, s Settings) *Limits {
	if s.ClientIP == nil {
		s.ClientIP = PeerIP
	}
	if s.MaxWaiting == 0 {
		s.MaxWaiting = 1000
	}

	l := &Limits{decider: by, settings: s, jitter: shareOf(s.RetryJitter), fields: fieldWriter{style: s.Fields, announce: s.Announce}}
	l.harness, _ = by.(*shadow.Harness)
	if with, ok := by.(interface{ Policies() *policies.Set }); ok {
		l.policies = with.Policies
	}
	if with, ok := by.(interface{ Served(time.Duration, bool) }); ok {
		l.served = with.Served
	}
	return l
}

// requests are reused: a limited request should not cost the allocation of what policies see of it.
var requests = sync.Pool{New: func() any { return new(policies.Request) }}

// Request returns an empty request, to be filled and passed to Decide.
func (l *Limits) Request() *policies.Request { return requests.Get().(*policies.Request) }

// RequestOf returns a request of net/http as policies see it, without its user and claims. Its route is found by route, or is
// the caller's to set if that is nil. It leaves out the fields that take time and that no policy in use reads, unless the
// whole request is asked for, as for a hook of the service.
func (l *Limits) RequestOf(r *http.Request, whole bool, route func(*http.Request) string) *policies.Request {
	p := l.Request()
	p.Method = r.Method
	p.Path = r.URL.Path
	p.Host = r.Host
	p.RawQuery = r.URL.RawQuery
	p.Headers = r.Header
	p.Size = r.ContentLength

	reading := l.Reading()
	if route != nil && (whole || reading.Route) {
		p.Route = route(r)
	}
	if whole || reading.IP {
		p.IP = l.settings.ClientIP(r)
	}
	if whole || reading.Time {
		p.Time = time.Now()
	}
	return p
}

// inUse returns the policies in use, nil if the decider has none.
func (l *Limits) inUse() *policies.Set {
	switch {
	case l.harness != nil:
		return l.harness.Policies()
	case l.policies != nil:
		return l.policies()
	}
	return nil
}

// Reading returns what policies in use read of a request. An adapter that would have to copy a field may leave it empty if
// none reads it. A decider without policies may read all of them.
func (l *Limits) Reading() *policies.Reading {
	return l.inUse().Reading()
}

// NeedsRoute reports whether a policy in use reads request.route, so that it would limit no request whose route is
// unknown. A decider without policies limits such a request all the same.
func (l *Limits) NeedsRoute() bool {
	set := l.inUse()
	return set != nil && set.ReadsRoutes
}

// Adapts reports whether a limit follows how long handlers take, or whether they fail. Served then has an effect.
func (l *Limits) Adapts() bool {
	set := l.inUse()
	return set != nil && set.Adapts && l.served != nil
}

// AdaptsByErrors reports whether a limit follows whether handlers fail.
func (l *Limits) AdaptsByErrors() bool { return l.Adapts() && l.inUse().AdaptsByErrors }

// Served tells a decider that has a method Served, as a Harness has, that the handler of a request has ended, which began at an
// instant; see shadow.Harness.Served. The context is the request's.
func (l *Limits) Served(ctx context.Context, began time.Time, failed bool) {
	if l.served == nil {
		return
	}

	// Where the client has disconnected, the handler may fail for that alone. Failures lower the limit of all clients, so a client must not
	// be able to bring them about.
	gone := failed && errors.Is(ctx.Err(), context.Canceled)
	l.served(max(time.Since(began), 0), failed && !gone)
}

// Decide charges a request, which must not be used after it, and returns the decision as WithJitter has it.
func (l *Limits) Decide(ctx context.Context, p *policies.Request) (d shadow.Decision) {
	l.DecideInto(ctx, p, &d)
	release(p)
	return d
}

// release gives the memory of a request back. A decider that panics keeps it: no other request gets it.
func release(p *policies.Request) {
	p.Reset()
	requests.Put(p)
}

// DecideSettling is Decide for a request that may have to be settled by its answer. If so, it returns what does that, else nil.
func (l *Limits) DecideSettling(ctx context.Context, p *policies.Request) (d shadow.Decision, settling *Settling) {
	l.DecideInto(ctx, p, &d)
	if d.Settles() && d.Allowed {
		return d, &Settling{request: p, decision: d, began: time.Now()}
	}
	release(p)
	return d, nil
}

// Settling is an admitted request whose answer settles it.
type Settling struct {
	request  *policies.Request
	decision shadow.Decision
	began    time.Time
}

// By settles by an answer, whose Duration it sets. Call it once, when the answer is known.
func (s *Settling) By(ctx context.Context, a policies.Response) {
	a.Duration = time.Since(s.began)
	s.decision.SettleBy(ctx, s.request, &a)
	release(s.request)
}

// DecideInto is Decide for a request that stays the caller's, and may be used again after a Reset. The decision is written
// to a place of the caller's, because it is expensive to copy.
func (l *Limits) DecideInto(ctx context.Context, p *policies.Request, d *shadow.Decision) {
	if l.harness != nil {
		l.harness.DecideInto(ctx, p, d)
	} else {
		*d = l.decider.Decide(ctx, p)
	}
	l.addJitter(d)
}

// Serving begins to measure. The request's body is replaced by one that remembers what its client has brought about: a limit that
// adapts lowers the limit of all clients, so that no client may bring about failures or long durations.
func (l *Limits) Serving(r *http.Request) Serving {
	s := Serving{limits: l, request: r, began: time.Now()}
	if r.Body != nil && r.Body != http.NoBody {
		s.body = &watchedBody{ReadCloser: r.Body}
		r.Body = s.body
	}
	return s
}

// WithJitter returns a decision as a client is told it: the RetryAfter of a denial is spread by Settings.RetryJitter or, without
// it, by the policy file's retry_jitter, and is never earlier than the decision's. It is for decisions that do not come from
// Limits.Decide. Take it once for everything that answers the client, so that all parts of one response say the same time.
func (l *Limits) WithJitter(d shadow.Decision) shadow.Decision {
	l.addJitter(&d)
	return d
}

// addJitter is WithJitter in place: a Decision is expensive to copy.
func (l *Limits) addJitter(d *shadow.Decision) {
	if d.Allowed || d.RetryAfter <= 0 || d.RetryAfter == algorithms.Never {
		return
	}

	// The policy file may be another one at the next denial. What the program says holds in its place.
	jitter := l.jitter
	if set := l.inUse(); jitter == 0 && set != nil {
		jitter = set.RetryJitter
	}
	if jitter > 0 {
		d.RetryAfter = spread(d.RetryAfter, jitter)
	}
}

// spread returns a wait that is longer by a random part of a share of it.
func spread(wait time.Duration, share float64) time.Duration {
	// A share of 1 of the longest wait is more than a Duration holds, and the sum may be, too.
	most := min(share*float64(wait), math.MaxInt64/2)
	longer := wait + rand.N(time.Duration(most)+1)
	return min(max(wait, longer), algorithms.Never-1)
}

// shareOf returns a share between 0 and 1: more than all of a wait would make most clients wait needlessly long.
func shareOf(configured float64) float64 {
	if math.IsNaN(configured) {
		return 0
	}
	return min(max(configured, 0), 1)
}

// WriteFields writes the response fields of a decision.
func (l *Limits) WriteFields(h http.Header, d *shadow.Decision) { l.fields.write(h, d) }

// FieldsOf returns the response fields of a decision for responses that have no http.Header.
func (l *Limits) FieldsOf(d *shadow.Decision) (list FieldList) {
	l.fields.list(&list, d)
	return list
}

// AppendFields adds the response fields of a decision to an empty list, for a response that copies them. It appends their values to
// a buffer, which it returns, and needs no allocation where that has room. The list has parts of the buffer: they change when
// the caller writes there again.
func (l *Limits) AppendFields(list *FieldList, buf []byte, d *shadow.Decision) []byte {
	added := l.fields.fill(list, d, buf[len(buf):])
	list.share(unsafe.String(unsafe.SliceData(added), len(added)))

	// Values that did not fit have memory of their own.
	if len(added) > cap(buf)-len(buf) {
		return buf
	}
	return buf[:len(buf)+len(added)]
}

// ErrFull is returned by Limits.Wait if Settings.MaxWaiting requests wait already.
var ErrFull = errors.New("too many requests are waiting")

// Wait waits for an admitted request's turn in a leaky bucket, which is the Delay of its decision. It returns ErrFull, or the
// context's error if that ends first; the request must then be answered that the service is unavailable. Its turn stays
// reserved.
func (l *Limits) Wait(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	return l.wait(ctx, delay)
}

// wait is Wait for a delay. It stands apart so that Wait is compiled into its callers.
func (l *Limits) wait(ctx context.Context, delay time.Duration) error {
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > l.settings.MaxWaiting {
		return ErrFull
	}

	timer := time.NewTimer(delay)
	defer timer.Stop()

	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RetryWhenFull is the time after which a request that Wait has refused with ErrFull should come again. RateLimit is
// already written then and says when more is there: a client must not be told to come back earlier than that.
func RetryWhenFull(d shadow.Decision) time.Duration { return max(d.Delay, d.MoreAfter()) }

// FormatSeconds writes a time as Retry-After has it: in whole seconds, rounded up.
func FormatSeconds(d time.Duration) string { return strconv.FormatInt(seconds(d), 10) }

// Unavailable answers a request of net/http that Wait has refused: 503, with Retry-After where too many are waiting.
// Where its context has ended, the client may still be connected, because the service may have set a deadline.
func Unavailable(w http.ResponseWriter, d shadow.Decision, refusal error) {
	if !errors.Is(refusal, ErrFull) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}

	w.Header().Set("Retry-After", FormatSeconds(RetryWhenFull(d)))
	http.Error(w, refusal.Error(), http.StatusServiceUnavailable)
}
