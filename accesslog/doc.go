// Package accesslog reads access logs as events: who asked, when, at what cost.
//
// It reads common and combined access logs, JSON lines and CSV, plain or gzip,
// and streams: memory does not grow with the log or the length of its lines.
//
// # Caveats
//
// Events come in the order of the lines, which is rarely the order of time: a
// server writes a line when a request ends and stamps it when it began. The
// formats common and combined have whole seconds, so a limit by the second
// cannot tell a fixed window from a sliding one on them.
package accesslog
