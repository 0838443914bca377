// Package integration tests against real components: Redis, Redis Cluster, processes,
// Prometheus, a browser. It is a module of its own, so that users of the library never
// download testcontainers.
//
// TestSoak runs for as long as it is told to, by make soak, and otherwise not at all: processes of
// this release and of an earlier one, which is built from the history, are disturbed at random.
// It prints a line for each round and the seed of its disturbances. SOAK=2m make soak takes two
// minutes, and SEED=N draws the same disturbances again.
//
// TestScale measures what fleets ask of Redis, by make scale, and writes the tables and drawings of docs/performance.md. It takes a
// quarter of an hour, two cores and 8 GB.
package integration
