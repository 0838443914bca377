// Package integration tests against real components: Redis, Redis Cluster, processes,
// Prometheus, a browser. It is a module of its own, so that users of the library never
// download testcontainers.
package integration
