package accesslog

import (
	"fmt"
	"strings"
)

// Format is the format of the lines of a log.
type Format int

const (
	Auto     Format = iota // detected from the content
	Common                 // host ident user [time] "request" status ...
	Combined               // common, then "referer" "agent"; read like common
	JSONL                  // one JSON object a line
	CSV                    // a header line, then one record a line
)

var formatNames = []string{"auto", "common", "combined", "jsonl", "csv"}

// String returns the name that ParseFormat reads.
func (f Format) String() string {
	if f < Auto || f > CSV {
		return fmt.Sprintf("Format(%d)", int(f))
	}
	return formatNames[f]
}

// ParseFormat returns the format with the given name.
func ParseFormat(name string) (Format, error) {
	for i, n := range formatNames {
		if n == name {
			return Format(i), nil
		}
	}
	return Auto, fmt.Errorf("no format %q: want one of %s", name, strings.Join(formatNames, ", "))
}

// Fields names the fields of JSON lines and CSV.
type Fields struct {
	Time string // "" means the first that exists of time, t_ns, t_us, t_ms and t_s
	Key  string // "" means key
	Cost string // "" means cost; a line without that field costs 1
}

func (f Fields) times() []string {
	if f.Time != "" {
		return []string{f.Time}
	}
	return []string{"time", "t_ns", "t_us", "t_ms", "t_s"}
}

func (f Fields) key() string {
	if f.Key != "" {
		return f.Key
	}
	return "key"
}

func (f Fields) cost() string {
	if f.Cost != "" {
		return f.Cost
	}
	return "cost"
}
