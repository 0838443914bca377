// Package grpclimit puts a shadow.Harness in front of a gRPC server: New(harness, Config{}).Options() are the options of
// grpc.NewServer that limit unary calls and streams.
//
// Policies see a call as this request: the full method, such as /shop.Items/Get, is both route and path; the method is
// POST, as in HTTP/2; metadata are headers; the peer's address is the ip; :authority is the host. The size is unknown.
//
// A denied call ends with RESOURCE_EXHAUSTED and, if a wait helps, the detail RetryInfo and the trailer
// grpc-retry-pushback-ms, which a retryPolicy obeys. The response fields of httplimit are a header of a call that is
// answered, and trailers of one that ends with an error.
//
// A shadow.Pair takes the place of the harness in the same way: its PairConfig.Key sees the request as policies do.
//
// # Caveats
//
// A stream is charged once, when it is opened. Its messages are not counted.
//
// A server that has interceptors of its own must chain these: Options does, grpc.UnaryInterceptor does not. Interceptors
// that authenticate must come first, so that Config.Identify finds what they have put into the context.
//
// A policy with settle is settled by the answer, whose code is response.status, 0 for OK. Its header and size are not known.
//
// Metadata are copied for each call if a policy reads headers, because gRPC gives no other access to them.
package grpclimit
