// Package demo plays a whole migration: a service behind the real middleware, the bundled log as
// its traffic, and a Redis in this process whose clock is the only clock and is wound forward.
// The candidate earns its promotion, goes wrong, and is rolled back.
//
// On a Redis of the user's, whose clock cannot be wound, it is one instance of a service with
// traffic, in real time.
package demo
