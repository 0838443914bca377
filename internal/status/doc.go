// Package status reports the state of a service's policies: as text for the command line, as JSON for programs, and as
// a page for operators.
//
// Of makes a Report of the assessments of a controller. Report.WriteText writes it for a
// terminal, its JSON form is a contract, and Page is an http.Handler that shows it. Summary, the counts of both sides,
// is shared with the reports of a replay.
//
// # Caveats
//
// A report names clients' keys, as HMACs where a secret is set, and the instances of the service: show it to operators
// only. Texts that clients and operators chose are escaped: a key cannot control a terminal or a browser.
package status
