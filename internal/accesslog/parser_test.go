package accesslog

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A Parser has the events that Read has, whichever line of the log is the first.
func TestParserReadsAsRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a folder
		}
		cfg := Config{Requests: true, Response: true}
		type event struct {
			at  int64
			key string
		}
		var want []event
		result, err := Read(bytes.NewReader(text), file, cfg, func(e Event) error {
			want = append(want, event{e.At, string(e.Key)})
			return nil
		})
		if err != nil || len(want) == 0 || bytes.IndexByte(text, '\n') < 0 {
			continue // no log by itself, or one that does not grow
		}
		p, err := NewParser(text, cfg)
		if err != nil {
			if err == errGrows {
				continue
			}
			t.Errorf("%s: %v", file, err)
			continue
		}

		var got []event
		bad, offset := int64(0), int64(0)
		for line := range bytes.Lines(text) {
			offset += int64(len(line))
			if offset <= p.Header {
				continue
			}
			e, isEvent, err := p.Line(line)
			if err != nil {
				bad++
			} else if isEvent {
				got = append(got, event{e.At, string(e.Key)})
			}
		}
		if bad != result.Bad || len(got) != len(want) {
			t.Errorf("%s: %d events and %d bad lines, Read has %d and %d", file, len(got), bad, len(want), result.Bad)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: event %d is %v, not %v", file, i, got[i], want[i])
				break
			}
		}

		// From the last line on, as behind a restart: of the lines before it only the directives count.
		q, err := NewParser(text, cfg)
		if err != nil || result.Bad > 0 {
			continue
		}
		lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
		for _, line := range lines {
			if q.Directive(line) {
				_, _, _ = q.Line(line)
			}
		}
		if e, isEvent, err := q.Line(lines[len(lines)-1]); err != nil || isEvent && e.At != want[len(want)-1].at {
			t.Errorf("%s: the last line alone: %v %v", file, e.At, err)
		}
	}
}
