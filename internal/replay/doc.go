// Package replay runs past traffic through a pair in virtual time and reports how
// the two limiters would have differed.
//
// [Events] collects checks from logs, in any order. [Run] judges each check at its
// own instant, in the order of the instants, and returns a [Report]. Checks of the
// same instant keep the order of collection.
//
// # Caveats
//
// The clients of the log reacted to the limiter of that day. A client that the
// candidate would have denied might have come back later or not at all, which a
// replay cannot know. Requests that are not in the log are not replayed.
package replay
