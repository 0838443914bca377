package promotion

import (
	"context"
	"errors"
	"time"
)

const (
	// unknownFor is how long a rollback waits for a policy that the store does not have. A
	// store that has lost its data, or a replica that had none, gets the states again from
	// the instances' next polls, and their connections may have to be restored first.
	unknownFor = 5 * time.Second
	askAgain   = 50 * time.Millisecond
)

// awaitState returns a policy's state. An unknown policy may be one that the store has just
// lost, while instances enforce its candidate: it is asked for again until unknownFor has
// passed or ctx is over.
func awaitState(ctx context.Context, store Store, policy string) (State, error) {
	patience, cancel := context.WithTimeout(ctx, unknownFor)
	defer cancel()

	for {
		s, err := current(ctx, store, policy)
		if !errors.Is(err, ErrUnknownPolicy) {
			return s, err
		}

		select {
		case <-time.After(askAgain):
		case <-patience.Done():
			return s, err
		}
	}
}
