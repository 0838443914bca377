// Package serve is the decision server of the command "shadowlimit serve": it answers over HTTP whether a request may
// pass, for services in any language and for the proxies in front of them.
//
// A Server has three ways to ask. Check takes a request, or a list of requests, as JSON. ForwardAuth and AuthRequest take
// the questions of proxies: a proxy sends the headers of its client's request, and writes method, address and client
// into headers of its own. Beside them are health, metrics and the status page.
//
// # Caveats
//
// What a proxy writes into headers, any other program can write, too. A Server believes it of peers on this machine, and
// of the proxies that its Config names.
//
// The caller closes the limiter after Serve has returned: evidence of the last requests is written then.
package serve
