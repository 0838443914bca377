// Package adapters turns limiters of other libraries into sides of a shadow.Pair or of
// a policy. Copy the adapter that you need.
package adapters
