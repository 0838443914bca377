// Package integration tests against real components: Redis, Redis Cluster, processes,
// Prometheus, a browser. It is a module of its own, so that users of the library never
// download testcontainers.
//
// TestScale measures what fleets ask of Redis, by make scale, and writes the second table of docs/performance.md. It takes a
// quarter of an hour, two cores and 8 GB.
package integration
