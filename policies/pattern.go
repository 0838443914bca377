package policies

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/google/cel-go/common"
)

// quotedText is a text of an expression in quotes, or a raw one, in which a backslash is a character.
var quotedText = regexp.MustCompile(`^(?:[rR]("[^"]*"|'[^']*')|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))`)

// textAt returns the text that is written out at a place of an expression, "" where none is that this reads.
func textAt(source string, at common.Location) string {
	m := quotedText.FindStringSubmatch(lineFrom(source, at))
	if m == nil {
		return ""
	}

	// A raw text has no escapes to undo.
	if raw := m[1]; raw != "" {
		return raw[1 : len(raw)-1]
	}

	// In single quotes Go has a character alone.
	inside := m[2][1 : len(m[2])-1]
	if m[2][0] == '\'' {
		inside = strings.ReplaceAll(strings.ReplaceAll(inside, `\'`, `'`), `"`, `\"`)
	}
	text, err := strconv.Unquote(`"` + inside + `"`)
	if err != nil {
		return ""
	}
	return text
}

// wrongPattern says why a regular expression is refused, in the words of package regexp, which has the same syntax as CEL: RE2.
func wrongPattern(pattern string) string {
	const words = "no regular expression of RE2"

	_, err := regexp.Compile(pattern)
	wrong := new(syntax.Error)
	if !errors.As(err, &wrong) {
		return words
	}

	// RE2 leaves out what cannot be found in a time that grows with the text alone.
	if wrong.Code == syntax.ErrInvalidPerlOp && strings.HasPrefix(wrong.Expr, "(?") {
		return words + ", which has no lookahead and no lookbehind: " + wrong.Expr
	}
	return words + ": " + wrong.Code.String() + ": " + wrong.Expr
}
