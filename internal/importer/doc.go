// Package importer reads the configuration of another rate limiter, and writes a policy file whose authoritative sides decide as
// that configuration does. Read is its only entrance; each peer has files of its own.
//
// What cannot be carried over is named with its place and its reason, in LeftOut. An importer never drops a line in silence.
// A configuration is input of unknown origin: size, depth and number of everything in it are bounded, and each file that comes
// out of Read is one that package policies accepts.
package importer
