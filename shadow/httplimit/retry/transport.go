package retry

import (
	"io"
	"net/http"
	"time"
)

// Config configures a Transport. The zero value is ready to use.
type Config struct {
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Bounds are how often and how long requests are repeated.
	Bounds Bounds
	// Repeatable reports whether a request may be sent more than once. It must not read the body. nil means that requests
	// may whose method is idempotent (GET, HEAD, OPTIONS, TRACE, PUT and DELETE), and those with the field Idempotency-Key.
	Repeatable func(*http.Request) bool
}

// Transport is an http.RoundTripper that repeats refused requests; see New.
type Transport struct {
	base       http.RoundTripper
	repeatable func(*http.Request) bool
	retrier    *Retrier
}

// New returns a Transport. A request that is refused for good has the last answer of the server, with its body. The
// error of a request whose context ends during a wait is the context's.
func New(cfg Config) *Transport {
	t := &Transport{base: cfg.Base, repeatable: cfg.Repeatable, retrier: NewRetrier(cfg.Bounds)}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.repeatable == nil {
		t.repeatable = repeatable
	}
	return t
}

// repeatable is the default of Config.Repeatable. The methods are the idempotent ones of RFC 9110.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	call := t.retrier.Begin()
	attempt := r
	for {
		response, err := t.base.RoundTrip(attempt)
		if err != nil {
			return nil, err
		}

		// The function of the user is asked last: it need not know answers or bodies.
		told, refused := refusal(response)
		if !refused || !rewindable(r) || !t.repeatable(r) {
			return response, nil
		}
		at, again := call.Next(r.Context(), told)
		if !again {
			return response, nil
		}

		// The answer is given up only when the next attempt is certain to have a body.
		next, err := rewound(r)
		if err != nil {
			return response, nil
		}
		discard(response.Body)
		if err := WaitUntil(r.Context(), at); err != nil {
			closeBody(next)
			return nil, err
		}
		attempt = next
	}
}

// CloseIdleConnections closes those of the base, for http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() { closeIdle(t.base) }

// closeIdle is what http.Client does, which does not look behind a RoundTripper of ours.
func closeIdle(base http.RoundTripper) {
	if closer, ok := base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// rewindable reports whether the body of a request can be sent again.
func rewindable(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// rewound returns the request with its body from the beginning. The original is not changed, as RoundTripper demands.
func rewound(r *http.Request) (*http.Request, error) {
	// A transport reads a body to its end and closes it, also where the request fails. GetBody gives it once more.
	next := r.WithContext(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return next, nil
	}

	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	next.Body = body
	return next, nil
}

// closeBody keeps the contract of a RoundTripper: it closes the body, also of a request that it does not send.
func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// Bounds of reading a body that is not needed. A connection is used again only if the body was read to its end, and
// a new one is cheaper than a long or slow body.
const (
	mostDrained  = 64 << 10
	drainTimeout = time.Second
)

// discard reads a short body to its end, and closes it.
func discard(body io.ReadCloser) {
	slow := time.AfterFunc(drainTimeout, func() { body.Close() })
	defer slow.Stop()
	io.CopyN(io.Discard, body, mostDrained)
	body.Close()
}
