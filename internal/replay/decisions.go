package replay

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// decisionLines writes charges and their decisions as lines of JSON. It appends bytes
// instead of using encoding/json, because a replay may write millions of lines.
type decisionLines struct {
	keys [][]byte // as JSON
	buf  []byte
}

func newDecisionLines(keys []string) decisionLines {
	d := decisionLines{keys: make([][]byte, len(keys))}
	for i, key := range keys {
		d.keys[i], _ = json.Marshal(key) // a string always has a JSON form
	}
	return d
}

// line returns one line, valid until the next call.
func (d *decisionLines) line(e event, o *[2]algorithms.Observation) []byte {
	b := strconv.AppendInt(append(d.buf[:0], `{"t_us":`...), e.at, 10)
	b = append(append(b, `,"key":`...), d.keys[e.key]...)
	b = strconv.AppendInt(append(b, `,"cost":`...), e.cost, 10)

	for role := range o {
		b = append(b, `,"`...)
		b = append(append(b, algorithms.Role(role).String()...), `":`...)
		b = appendDecision(b, o[role].Decision)
	}

	d.buf = append(b, "}\n"...)
	return d.buf
}

func appendDecision(b []byte, d algorithms.Decision) []byte {
	b = strconv.AppendBool(append(b, `{"allowed":`...), d.Allowed)
	b = strconv.AppendInt(append(b, `,"remaining":`...), d.Remaining, 10)

	// Never has no meaning as a number of microseconds.
	b = append(b, `,"retry_after_us":`...)
	if d.RetryAfter == algorithms.Never {
		b = append(b, "null"...)
	} else {
		b = appendMicros(b, d.RetryAfter)
	}

	b = appendMicros(append(b, `,"reset_after_us":`...), d.ResetAfter)
	b = appendMicros(append(b, `,"delay_us":`...), d.Delay)
	return append(b, '}')
}

func appendMicros(b []byte, d time.Duration) []byte {
	return strconv.AppendInt(b, d.Microseconds(), 10)
}
