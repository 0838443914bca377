// Package flaghelp writes the help of flags, for every command of the house.
package flaghelp

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// usageWidth is how long a line of a flag's help becomes, in characters: with the names before it, it stays below 100 columns.
const usageWidth = 64

// ofLibrary is the library's own text of a flag.
var ofLibrary = cli.FlagStringer

// String is the text of a flag in a help, for cli.FlagStringer.
//
// A flag that may be repeated says so in its own words, and the library would write it twice. The library breaks no line of a flag
// with a heading: the next line here begins with an empty cell of the table, below the usage.
func String(f cli.Flag) string {
	if yes, ok := f.(*cli.BoolFlag); ok {
		yes.DisableDefaultText = true
	}

	names, usage, _ := strings.Cut(ofLibrary(f), "\t")
	once, _, _ := strings.Cut(names, " [ ")
	return once + "\t" + strings.ReplaceAll(humanize.Wrap(usage, usageWidth), "\n", "\n   \t")
}
