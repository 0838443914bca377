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
//
// A gzip stream that is cut off or corrupt is an error at its end, after the
// events that came before it, some of them perhaps read from the damage.
//
// Of a line only the first 64 KiB are kept, of JSON lines and CSV 1 MiB. Formats
// are found out by the first 64 KiB of a log: one that begins with a longer line
// needs its format named.
package accesslog
