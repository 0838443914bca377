package shadow

import "os"

// RedButton is how to enforce the authoritative at once from outside of the program,
// whatever the fleet's stage and without Redis. See also Harness.RedButtonHandler and
// Harness.EnforceAuthoritative.
//
// A press is an order to roll back, too: every policy whose candidate is enforced for any key
// is rolled back for the whole fleet, at once or as soon as Redis answers. Releasing the
// button before that withdraws the order; afterwards the policies stay rolled back.
type RedButton struct {
	// File presses the button while it exists. It is checked once a second; "" means no
	// file. Its content does not matter.
	File string
	// Signal presses the button until the handler releases it; nil means no signal.
	Signal os.Signal
}
