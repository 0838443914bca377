package retry

import "net/http"

// PacedTransport is an http.RoundTripper that waits before it sends; see Paced.
type PacedTransport struct {
	base  http.RoundTripper
	pacer *Pacer
	key   func(*http.Request) string
}

// Paced returns an http.RoundTripper that sends a request when the pacer lets it go, at a cost of 1. base sends the
// requests; nil means http.DefaultTransport. key returns whose budget a request takes; nil means the host of its URL.
// The errors of a request that was not sent are those of Pacer.Wait.
func Paced(base http.RoundTripper, p *Pacer, key func(*http.Request) string) *PacedTransport {
	if base == nil {
		base = http.DefaultTransport
	}
	if key == nil {
		key = func(r *http.Request) string { return r.URL.Host }
	}
	return &PacedTransport{base, p, key}
}

// RoundTrip implements http.RoundTripper.
func (t *PacedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.pacer.Wait(r.Context(), t.key(r), 1); err != nil {
		closeBody(r) // as RoundTripper demands, also of a request that is not sent
		return nil, err
	}
	return t.base.RoundTrip(r)
}

// CloseIdleConnections closes those of the base, for http.Client.CloseIdleConnections.
func (t *PacedTransport) CloseIdleConnections() { closeIdle(t.base) }
