// Package accesslog reads access logs as events: a key, an instant, a cost.
//
// It reads the access logs of web servers, balancers and gateways, JSON lines and tables, plain or compressed by gzip,
// bzip2 or zstd. It streams: memory does not grow with the log or with the length of its lines.
//
// The format, and a prefix that a log collector has put before each line, are found out by content. The fields of a
// request are known by the names that usual programs give them; Config.Map names others.
//
// # Caveats
//
// Events come in the order of the lines, which is rarely the order of time: a
// server writes a line when a request ends, with the instant at which it began. The
// formats common and combined have whole seconds, so on them a limit per second
// behaves alike with a fixed window and with a sliding one.
//
// A compressed stream that is truncated or corrupt is an error at its end. The events
// before that error have been emitted; some of them may come from corrupt data.
//
// Only the first 64 KiB of a line are kept, 1 MiB for JSON lines and CSV. The format
// is detected from the first 64 KiB of a log: a log that begins with a longer line
// needs Config.Format.
package accesslog
