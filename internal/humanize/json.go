package humanize

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
)

// WriteJSON writes a value as JSON whose characters can all be printed: a client's key may have some that a terminal obeys, such as
// U+009B or U+202E, and JSON itself escapes only those below U+0020.
func WriteJSON(out io.Writer, indent string, value any) error {
	var text, safe bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return err
	}

	// Outside of strings there is nothing but ASCII.
	for _, r := range text.String() {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			safe.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&safe, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&safe, `\u%04x`, r)
		}
	}
	_, err := out.Write(safe.Bytes())
	return err
}
