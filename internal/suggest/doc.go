// Package suggest proposes a first limit from the requests of a log. It is pure: requests in, proposals out.
//
// For each window it finds the most that clients send but for a given share of them, and of their requests: the limit. A log with
// abuse has clients that no such limit may spare, so those far above all others are set apart first: the share is of the others.
package suggest
