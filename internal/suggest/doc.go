// Package suggest proposes a first limit from the requests of a log. It is pure: requests in, proposals out.
//
// For each window it finds the smallest limit that touches at most a given share of the clients, and of their requests. A log with
// abuse has clients that no such limit may spare, so those far above all others are set apart first: the share is of the others.
package suggest
