// Package lua is the Redis pair: the algorithms of package algorithms as Lua scripts
// that answer the same digit for digit, with both sides of a check in one record, one
// script and one round trip.
//
// A record is one string at shadowlimit1:{name:policy:key}; the sliding window log keeps
// a sorted set beside it, under the same hash tag. Keys over 256 bytes are hashed; with
// a secret every key is stored as an HMAC (see algorithms.StoredKey). A record expires
// once it is as if unused.
//
// A script is pair.lua, a template, with the step of each side in its place: a chunk of
// Lua that reads and sets local names, one or two files of this folder. Both pairs and
// the oracle of package limitertest decide alike, which a test of random traces holds.
//
// # Caveats
//
// A script that got no answer may have run. It is never sent again, whatever the
// client's retry options: the check then has an error, and the budget may or may not
// have been spent. Only a script that certainly did not run, because the server does not
// know it, is sent once more, with its text.
//
// The package works with the client it is given. [Warnings] names the options of
// a client that break a limiter, [Tune] sets good ones.
package lua
