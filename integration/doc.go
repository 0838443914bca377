// Package integration tests what only real components can show. It is a module
// of its own, so that users of the library never download testcontainers.
package integration
