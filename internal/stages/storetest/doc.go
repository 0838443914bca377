// Package storetest is the conformance suite of stores of stages: a store that passes it
// may serve a fleet.
//
// A store of another database passes it like this:
//
//	func TestMyStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) stages.Store {
//			return mystore.Open(t, "name-"+rand.Text()) // empty: no law may see another law's states
//		})
//	}
//
// # Caveats
//
// The suite compares states with Equal, times included. A store has to keep instants to the
// nanosecond.
//
// A law needs nothing but the methods of [stages.Store]. The suite therefore cannot check
// entries that other programs wrote, a full or an absent database, a failover, the end of a
// lease, and the bound of the audit trail. The tests of a store have to check these by its own means.
package storetest
