package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A client must not be able to lower the limits of all clients: what it can bring about is no failure of the server.
func TestFailuresAreTheServers(t *testing.T) {
	failures := map[codes.Code]bool{codes.Unknown: true, codes.Internal: true, codes.Unavailable: true, codes.DataLoss: true}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if got := failure(status.Error(code, "")); got != failures[code] {
			t.Errorf("%s is a failure: %t", code, got)
		}
	}

	for err, want := range map[error]bool{
		nil: false, errors.New("a bug"): true, context.Canceled: false, context.DeadlineExceeded: false,
	} {
		if got := failure(err); got != want {
			t.Errorf("%v is a failure: %t", err, got)
		}
	}
	if failure(fmt.Errorf("read: %w", status.Error(codes.NotFound, ""))) {
		t.Error("a wrapped status is not read")
	}
}
