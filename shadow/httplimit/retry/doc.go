// Package retry is the client's side of a rate limit. It needs no server of this project, and imports neither Redis nor
// policies.
//
// New returns an http.RoundTripper that repeats requests which a server has refused by 429 or 503, never earlier than the
// server says, and a random time later:
//
//	client := &http.Client{Transport: retry.New(retry.Config{})}
//
// Paced returns one that waits before it sends a request that a limiter would deny, so that most refusals do not happen. Put it
// inside, so that repeated requests wait for their turn, too:
//
//	pacer, err := retry.NewPacer(retry.PacerConfig{Algorithm: algorithms.GCRA{}, Limit: limit})
//	client := &http.Client{Transport: retry.New(retry.Config{Base: retry.Paced(nil, pacer, nil)})}
//
// Retrier and Pacer are the same for other protocols; adapters/grpclimit has the interceptors of gRPC clients.
//
// # What a server says
//
// Retry-After, in seconds or as a date, goes before all other fields. Without it these are read: RateLimit of the drafts from 07
// on, RateLimit-Reset, and X-RateLimit-Reset as seconds from now, as seconds or milliseconds since 1970, or as a date of
// RFC 3339. A number from 315,360,000 on is since 1970: as seconds from now it would be ten years. Instants are compared
// with the response's Date, so that the clocks of client and server need not agree.
//
// A 403 is repeated only if it says that nothing remains and when there will be more, as GitHub's does.
//
// # Caveats
//
// Only requests that may be repeated are: see Config.Repeatable. A request with a body needs GetBody, which
// http.NewRequest sets for buffers and texts.
//
// A wait holds for one request. Other requests of the client are sent meanwhile, because they may have another limit.
//
// Errors of the connection are not repeated: it is not known whether the server has seen the request.
package retry
