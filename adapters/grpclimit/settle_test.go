package grpclimit_test

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shadowlimit/shadowlimit/adapters/grpclimit"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Only calls that are not authenticated count. One that panics costs nothing either.
func TestSettlesByTheCode(t *testing.T) {
	set, err := policies.Load("p.yaml", []byte(`
version: 1
name: logins
policies:
  - name: failures
    key: request.route
    settle: 'response.status == 16 ? 1 : 0'
    authoritative: { algorithm: fixed_window, limit: 3, window: 1d }
`))
	if err != nil {
		t.Fatal(err)
	}
	h, err := shadow.New(shadow.Config{Policies: set, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	i := grpclimit.New(h, grpclimit.Config{})

	call := func(answer func() error) codes.Code {
		_, err := i.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/logins/Login"},
			func(context.Context, any) (any, error) { return nil, answer() })
		return status.Code(err)
	}
	for range 10 {
		if code := call(func() error { return nil }); code != codes.OK {
			t.Fatal("a right password: ", code)
		}
		func() {
			defer func() {
				if recover() != "of the handler" {
					t.Error("the panic is lost")
				}
			}()
			call(func() error { panic("of the handler") })
		}()
	}
	for n := range 5 {
		want := codes.Unauthenticated
		if n >= 3 {
			want = codes.ResourceExhausted
		}
		if code := call(func() error { return status.Error(codes.Unauthenticated, "no") }); code != want {
			t.Errorf("wrong password %d: %v, want %v", n+1, code, want)
		}
	}
}
