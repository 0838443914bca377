// Package adaptertest is the suite that every way into a service passes: the middleware of net/http and chi, and the
// adapters of other frameworks. Run asks a service that is built with the real framework, over real connections.
//
// A Framework says how its routes are written and how a Service of the suite is started with it. What the suite asks is
// the same for all: which requests are charged, what a client is told, and what becomes of streams, of clients that
// disconnect, of panics and of hostile input.
package adaptertest
