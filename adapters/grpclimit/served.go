package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// measure runs the handler of a call and tells how long it took. A handler that panics has failed.
func (i *Interceptors) measure(ctx context.Context, message any, handler grpc.UnaryHandler) (any, error) {
	began, failed := time.Now(), true
	defer func() { i.limits.Served(ctx, began, failed) }()

	answer, err := handler(ctx, message)
	failed = failure(err)
	return answer, err
}

// measureStream is measure for a stream, which counts with all of its time.
func (i *Interceptors) measureStream(service any, stream grpc.ServerStream, handler grpc.StreamHandler) error {
	began, failed := time.Now(), true
	defer func() { i.limits.Served(stream.Context(), began, failed) }()

	err := handler(service, stream)
	failed = failure(err)
	return err
}

// failure reports whether a call has failed by the server's fault, which lowers an adaptive limit for all clients. So no code is among
// these that a client can bring about: it chooses its deadline, and it may call a method that is not there, or disconnect.
func failure(err error) bool {
	switch codeOf(err) {
	case codes.Unknown, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}
