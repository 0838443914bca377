// Package flaghelp writes the help of flags, for every command of the house.
package flaghelp

import (
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// A flag's help has 80 columns: three are the library's, then come the names and a gap, and then the usage.
const (
	namesWidth = 25
	usageWidth = 80 - 3 - namesWidth
)

// Use has the library write help like this.
func Use() {
	cli.FlagStringer = text
	// Where no flag has a heading the library indents the further lines of a flag once more.
	for _, template := range []*string{&cli.AppHelpTemplate, &cli.CommandHelpTemplate, &cli.SubcommandHelpTemplate} {
		*template = strings.Replace(*template, `{{template "visibleFlagTemplate" .}}`, "{{range .VisibleFlags}}\n   {{.}}{{end}}", 1)
	}
}

// ofLibrary is the library's own text of a flag.
var ofLibrary = cli.FlagStringer

// text is the text of a flag in a help, for cli.FlagStringer.
//
// A flag that may be repeated says so in its own words, and the library would write it twice. The library breaks no line of a flag.
// Where names are too long, the usage begins below them.
func text(f cli.Flag) string {
	if yes, ok := f.(*cli.BoolFlag); ok {
		yes.DisableDefaultText = true
	}

	names, usage, _ := strings.Cut(ofLibrary(f), "\t")
	once, _, _ := strings.Cut(names, " [ ")
	below := "\n" + strings.Repeat(" ", 3+namesWidth)
	gap := below
	if n := utf8.RuneCountInString(once); n <= namesWidth-2 {
		gap = strings.Repeat(" ", namesWidth-n)
	}
	return once + gap + strings.ReplaceAll(humanize.Wrap(usage, usageWidth), "\n", below)
}
