package gate

import (
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// FieldError is a field of a configuration that the gate cannot judge by.
type FieldError struct {
	Field   string // its name in a policy file, such as soak
	Problem string
}

// Error implements error.
func (e *FieldError) Error() string { return "gate: " + e.Message() }

// Message is the error as a message about a policy file.
func (e *FieldError) Message() string { return e.Field + ": " + e.Problem }

// Warning is about fields that the gate can judge by, and that cannot have the effect
// that their author wants.
type Warning struct {
	// Fields are their names in a policy file; the first is the one to change.
	Fields  []string
	Message string
}

// keptFor is how long the ledger keeps evidence.
const keptFor = divergence.KeptDays * 24 * time.Hour

// Warnings returns the warnings about a configuration as it was declared, with its zero
// fields still zero. A default alone is nothing to warn of, because the author has not
// chosen it, but it counts beside a field that was declared.
func (c Config) Warnings() (list []Warning) {
	warn := func(format string, args []any, fields ...string) {
		list = append(list, Warning{fields, fields[0] + ": " + fmt.Sprintf(format, args...)})
	}
	declared, c := c, c.WithDefaults()

	if keys := declared.MinDeniedKeys; keys > c.MinDenials {
		warn("%d keys take at least %d denials, so min_denials %d decides nothing",
			[]any{keys, keys, c.MinDenials}, "min_denied_keys", "min_denials")
	}
	return list
}

// asWritten writes a duration as a policy file has it.
func asWritten(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return short(d)
}
