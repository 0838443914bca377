package adaptertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// HTTP is the client of a service that speaks HTTP.
type HTTP struct {
	// Addr is the server's host and port.
	Addr string
}

// Serve serves a handler of net/http and returns its client.
func Serve(t *testing.T, s *Service, h http.Handler) Client {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.BaseContext = func(net.Listener) context.Context { return s.Context }
	server.Config.MaxHeaderBytes = 1 << 16
	server.Start()
	t.Cleanup(server.Close)
	return HTTP{server.Listener.Addr().String()}
}

// paths are the paths of the routes.
var paths = map[string]string{
	"item": "/items/1", "free": "/free", "stream": "/stream", "hang": "/hang", "panic": "/panic", "fail": "/fail", "none": "/none",
}

// Send implements Client.
func (c HTTP) Send(ctx context.Context, q Query) (Answer, error) {
	response, err := c.open(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, response.Header, string(body)}, err
}

// Open implements Client.
func (c HTTP) Open(ctx context.Context, q Query) (func() (string, error), error) {
	response, err := c.open(ctx, q)
	if err != nil {
		return nil, err
	}

	buffer := make([]byte, 64)
	return func() (string, error) {
		n, err := response.Body.Read(buffer)
		if n == 0 && err != nil {
			response.Body.Close()
			return "", err
		}
		return string(buffer[:n]), nil
	}, nil
}

// transport keeps no connection: a server that is closed would wait for it.
var transport = &http.Transport{DisableKeepAlives: true}

func (c HTTP) open(ctx context.Context, q Query) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Addr+paths[q.Route], nil)
	if err != nil {
		return nil, err
	}

	r.Header = q.Header.Clone()
	return (&http.Client{Transport: transport}).Do(r)
}

// raw sends bytes over a new connection and returns the whole answer.
func (c HTTP) raw(t *testing.T, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", c.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(conn, request)
	got, _ := io.ReadAll(conn) // a server that refuses a request may reset the connection
	return string(got)
}

// Mux returns the service's routes for net/http.
func Mux(s *Service) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, s.Item(r.Context(), r.PathValue("id")))
	})
	mux.HandleFunc("GET /free", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "free") })
	mux.HandleFunc("GET /stream", s.ServeStream)
	mux.HandleFunc("GET /hang", func(_ http.ResponseWriter, r *http.Request) { s.Hang(r.Context()) })
	mux.HandleFunc("GET /panic", func(http.ResponseWriter, *http.Request) { s.Panic() })
	mux.HandleFunc("GET /fail", s.ServeFailure)
	return mux
}
