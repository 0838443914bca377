package retry

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a RoundTripper without a network.
type server func(*http.Request) *http.Response

func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return s(r), nil
}

// body counts what is read of it, and notices that it is closed.
type body struct {
	io.Reader
	read   atomic.Int64
	closed atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

// answer is a response with pairs of names and values of header fields.
func answer(status int, fields ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: &body{Reader: strings.NewReader("text")}}
}

// get returns a GET request.
func get(ctx context.Context) *http.Request {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
	if err != nil {
		panic(err)
	}
	return r
}
