package grpclimit_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shadowlimit/shadowlimit/adapters/grpclimit"
	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

const name = "conformance.Service"

func TestConformance(t *testing.T) {
	adaptertest.Run(t, adaptertest.Framework{
		Item: "/" + name + "/item", Stream: "/" + name + "/stream", Hang: "/" + name + "/hang", Panic: "/" + name + "/panic",
		Start: func(t *testing.T, s *adaptertest.Service) adaptertest.Client {
			options := append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(recovered)}, grpclimit.New(s.Harness, configOf(s)).Options()...)
			return start(t, descOf(s), options...)
		},
	})
}

// configOf returns the interceptors' configuration for a service of the suite.
func configOf(s *adaptertest.Service) grpclimit.Config {
	cfg := grpclimit.Config{
		ClientIP:    s.Settings.ClientIP,
		Fields:      httplimit.Fields(s.Settings.Fields),
		Announce:    s.Settings.Announce,
		RetryJitter: s.Settings.RetryJitter,
		MaxWaiting:  s.Settings.MaxWaiting,
		InContext:   s.InContext,
		Debug:       func(context.Context) bool { return s.Debugged },
	}
	if s.Identified {
		cfg.Identify = func(ctx context.Context, p *policies.Request) {
			adaptertest.Identify(func(name string) string {
				return strings.Join(metadata.ValueFromIncomingContext(ctx, name), ", ")
			}, p)
		}
	}
	return cfg
}

// recovered answers where a handler panics, as most services do.
func recovered(ctx context.Context, message any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "recovered")
		}
	}()
	return handler(ctx, message)
}

// start serves a service over a real connection.
func start(t *testing.T, desc *grpc.ServiceDesc, options ...grpc.ServerOption) client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	server.RegisterService(desc, nil)
	go server.Serve(listener)
	t.Cleanup(server.Stop)

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{conn}
}

// descOf describes the suite's service, as generated code would.
func descOf(s *adaptertest.Service) *grpc.ServiceDesc {
	unary := func(method string, serve func(context.Context) string) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: method, Handler: handlerOf(method, serve)}
	}

	stream := func(_ any, stream grpc.ServerStream) error {
		var query wrapperspb.StringValue
		if err := stream.RecvMsg(&query); err != nil {
			return err
		}
		s.Stream(stream.Context(), func(text string) { stream.SendMsg(wrapperspb.String(text)) })
		return nil
	}

	return &grpc.ServiceDesc{
		ServiceName: name,
		Methods: []grpc.MethodDesc{
			unary("item", func(ctx context.Context) string { return s.Item(ctx, "1") }),
			unary("free", func(context.Context) string { return "free" }),
			unary("hang", func(ctx context.Context) string { s.Hang(ctx); return "" }),
			unary("panic", func(context.Context) string { s.Panic(); return "" }),
			{MethodName: "fail", Handler: failing},
		},
		Streams: []grpc.StreamDesc{{StreamName: "stream", ServerStreams: true, Handler: stream}},
	}
}

// handlerOf makes a method's handler, as generated code does.
func handlerOf(method string, serve func(context.Context) string) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		var query wrapperspb.StringValue
		if err := decode(&query); err != nil {
			return nil, err
		}

		handler := func(ctx context.Context, _ any) (any, error) { return wrapperspb.String(serve(ctx)), nil }
		if interceptor == nil {
			return handler(ctx, &query)
		}
		return interceptor(ctx, &query, &grpc.UnaryServerInfo{FullMethod: "/" + name + "/" + method}, handler)
	}
}

// failing is the handler of a method that is down.
func failing(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	down := func(context.Context, any) (any, error) { return nil, status.Error(codes.Unavailable, "down") }
	return interceptor(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/" + name + "/fail"}, down)
}

// client is a real client of the service.
type client struct{ conn *grpc.ClientConn }

// outgoing puts the header of a query into metadata.
func outgoing(ctx context.Context, q adaptertest.Query) context.Context {
	md := metadata.MD{}
	for name, values := range q.Header {
		md.Append(name, values...)
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// statuses are the codes of HTTP with the meaning of gRPC's.
var statuses = map[codes.Code]int{
	codes.OK: 200, codes.ResourceExhausted: 429, codes.Unimplemented: 404, codes.Internal: 500, codes.Unavailable: 503,
}

// Send implements adaptertest.Client.
func (c client) Send(ctx context.Context, q adaptertest.Query) (adaptertest.Answer, error) {
	var answer wrapperspb.StringValue
	var head, trailer metadata.MD
	err := c.conn.Invoke(outgoing(ctx, q), "/"+name+"/"+q.Route, wrapperspb.String("1"), &answer, grpc.Header(&head), grpc.Trailer(&trailer))
	code, known := statuses[status.Code(err)]
	if !known {
		return adaptertest.Answer{}, err
	}

	// A refusal is one section, which is both a header and trailers. A call that is served must not be told its fields by trailers.
	fields := head
	if err != nil {
		fields = trailer
	}
	header := http.Header{}
	for name, values := range fields {
		header[http.CanonicalHeaderKey(name)] = values
	}
	return adaptertest.Answer{Status: code, Header: header, Body: answer.Value}, retryInfoAgrees(err, header)
}

// retryInfoAgrees returns an error if a refusal has the trailer Retry-After without RetryInfo, or RetryInfo of another
// time.
func retryInfoAgrees(err error, header http.Header) error {
	var detail string
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			detail = fmtSeconds(info.RetryDelay.AsDuration())
		}
	}
	if after := header.Get("Retry-After"); detail != after {
		return status.Errorf(codes.DataLoss, "RetryInfo says %q and Retry-After %q", detail, after)
	}
	return nil
}

// Open implements adaptertest.Client.
func (c client) Open(ctx context.Context, q adaptertest.Query) (func() (string, error), error) {
	stream, err := c.conn.NewStream(outgoing(ctx, q), &grpc.StreamDesc{ServerStreams: true}, "/"+name+"/"+q.Route)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(wrapperspb.String("1")); err != nil {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}

	return func() (string, error) {
		var text wrapperspb.StringValue
		err := stream.RecvMsg(&text)
		return text.Value, err
	}, nil
}
