// Package fleet is one instance's part in its fleet, and no request passes through it. It sends heartbeats and applies stages
// (poll.go), writes what requests have counted to the ledger (flush.go), evaluates all policies while it has the lease
// (lead.go), carries the orders of the red button to the store (press.go, button.go), and keeps the last stages on disk for
// a start without the store (last_stages.go).
//
// Package shadow tells it the policies of the instance by [Fleet.Replan]. Requests read what it applies in a [stages.Current]
// of each policy, and are told of the fleet by [Config.Seen].
package fleet
