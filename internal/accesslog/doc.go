// Package accesslog reads access logs as events: a key, an instant, a cost.
//
// It reads common and combined access logs, JSON lines and CSV, plain or gzip. It
// streams: memory does not grow with the log or with the length of its lines.
//
// # Caveats
//
// Events come in the order of the lines, which is rarely the order of time: a
// server writes a line when a request ends, with the instant at which it began. The
// formats common and combined have whole seconds, so on them a limit per second
// behaves alike with a fixed window and with a sliding one.
//
// A gzip stream that is truncated or corrupt is an error at its end. The events
// before that error have been emitted; some of them may come from corrupt data.
//
// Only the first 64 KiB of a line are kept, 1 MiB for JSON lines and CSV. The format
// is detected from the first 64 KiB of a log: a log that begins with a longer line
// needs Config.Format.
package accesslog
