package policies

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	// textBegins is the end of a line below which a text of several lines stands. Its lines are indented as their author likes.
	textBegins = regexp.MustCompile(`(?:^|[:-] +)[|>][-+0-9]* *(?:#.*)?$`)
	// itemBegins is the begin of an item of a list. The fields of an item stand in the column of its first one.
	itemBegins = regexp.MustCompile(`^- +`)
)

// column is where fields stand, or the items of a list. It counts from 0.
type column struct {
	at   int
	list bool // and only items stand there
}

// misindented finds a line that stands in no column of those above it, or among items and is none. Package yaml names the line on
// which the list or the mapping begins, which may be a page above.
func (r *reader) misindented(_ int, message string) (at, place int, mistake string) {
	if !strings.Contains(message, "did not find expected '-' indicator") && !strings.Contains(message, "did not find expected key") {
		return 0, 0, ""
	}

	open, text := []column{{at: 0}}, -1 // text is the column of the field with a text of several lines, -1 for none
	for i, line := range r.lines {
		content := strings.TrimLeft(line, " ")
		indent := len(line) - len(content)
		if content == "" || content[0] == '#' || text >= 0 && indent > text {
			continue
		}
		if text = -1; textBegins.MatchString(line) {
			text = indent
		}

		// A line further to the left ends what stands further to the right.
		ended := 0
		for len(open) > 1 && open[len(open)-1].at > indent {
			ended = open[len(open)-1].at
			open = open[:len(open)-1]
		}
		switch last := open[len(open)-1]; {
		case last.at < indent && ended > 0:
			return i + 1, indent + 1, fmt.Sprintf("this line begins in column %d, and the lines above it in column %d or %d: "+
				"indent it as one of them", indent+1, last.at+1, ended+1)
		case last.at == indent && last.list && content[0] != '-':
			return i + 1, indent + 1, "this line stands in the column of the items of a list: an item begins with - and a space, " +
				"and the fields of an item stand further to the right"
		// A line further to the right opens a column.
		case last.at < indent:
			open = append(open, column{indent, content[0] == '-'})
		}
		open = withItems(open, content, indent)
	}
	return 0, 0, ""
}

// withItems adds the columns of the fields of items that begin on a line. "- - a: 1" begins an item within another.
func withItems(open []column, content string, indent int) []column {
	for {
		dash := itemBegins.FindString(content)
		if dash == "" {
			return open
		}

		indent += len(dash)
		content = content[len(dash):]
		open = append(open, column{at: indent})
	}
}
