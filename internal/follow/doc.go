// Package follow counts what a log says that another program's limiter has decided, beside what a candidate would have, while the log
// grows. The counts go where those of a service go, so everything that shows a service shows them.
//
// A line is counted once, whatever is killed and rotated. Reading is in one goroutine, and now and then it stops for a
// checkpoint: all recorders give their batches, and one file gets them with the position in the logs and the memory of the
// candidates; only then are they written to the ledger. What begins again goes on with that file: it writes the same batches
// again, which the ledger knows by their numbers, and reads on from the position.
package follow
