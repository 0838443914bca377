// Package testseed makes property tests draw the same programs in each run: a change is then accepted or refused for what it
// changes, and not by chance. Tests import it for this effect. Where SHADOWLIMIT_LONG is set, as in `make long`, each run draws
// others. The flag -rapid.seed goes before both.
package testseed

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // declares the flag
)

// seed is any number but 0, for which rapid draws one.
const seed = "13"

func init() {
	if os.Getenv("SHADOWLIMIT_LONG") == "" {
		if err := flag.Set("rapid.seed", seed); err != nil {
			panic(err) // rapid has no such flag any more
		}
	}
}
