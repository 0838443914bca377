package accesslog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
)

// biggerLog returns lines that fill more than one read.
func biggerLog(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "10.%d.%d.1 - - %s \"GET /%d\" 200 1\n", i%251, i%13, stamp, i*7919)
	}
	return b.String()
}

func packed(log string) []byte {
	b, _ := io.ReadAll(zipped(log))
	return b
}

// TestBrokenGzip damages streams that detection reads whole and streams that it does
// not.
func TestBrokenGzip(t *testing.T) {
	for _, lines := range []int{10, 50_000} {
		whole := packed(biggerLog(lines))
		badSum := bytes.Clone(whole)
		badSum[len(badSum)-8] ^= 1

		early := fmt.Sprintf("log: the gzip stream ends early, after %d lines: the file is truncated", lines)
		corrupt := fmt.Sprintf("log: the gzip stream is corrupt, found after %d lines: gzip: ", lines)
		magic := []byte("\x1f\x8bxxxxxxxxxx")

		tests := []struct {
			name   string
			give   []byte
			events int
			want   string
		}{
			{"truncated in the checksum", whole[:len(whole)-3], lines, early},
			{"wrong checksum", badSum, lines, corrupt + "invalid checksum"},
			{"junk behind it", append(bytes.Clone(whole), "something else"...), lines, corrupt + "invalid header"},
			{"second member truncated", append(bytes.Clone(whole), whole[:12]...), lines, "log: the gzip stream ends early, after "},
			{"the magic bytes only", magic, 0, "log: the gzip stream is corrupt, found after 0 lines: gzip: invalid header"},
			{"two members", append(bytes.Clone(whole), whole...), 2 * lines, ""},
		}

		for _, tt := range tests {
			_, bad, result, err := collect(bytes.NewReader(tt.give), accesslog.Config{})
			if tt.want == "" && err != nil || !strings.HasPrefix(fmt.Sprint(err), tt.want) {
				t.Errorf("%s, %d lines: %v, want %q", tt.name, lines, err, tt.want)
			}
			if result.Events != int64(tt.events) || bad != nil {
				t.Errorf("%s, %d lines: %+v, bad %q, want %d events", tt.name, lines, result, bad, tt.events)
			}
		}
	}
}

// TestFlippedBits flips each bit position of a gzip log: no damage may change an event
// without an error. Flate has a few unused bits, which no reader can check.
func TestFlippedBits(t *testing.T) {
	whole := packed(biggerLog(200))
	want, _, _, _ := collect(bytes.NewReader(whole), accesslog.Config{})
	unnoticed := 0

	const header = 10 // a date and an operating system, which have no checksum
	for i := header; i < len(whole); i++ {
		broken := bytes.Clone(whole)
		broken[i] ^= 1 << (i % 8)

		got, _, result, err := collect(bytes.NewReader(broken), accesslog.Config{Format: accesslog.Common})
		if err != nil && strings.HasPrefix(err.Error(), "log: the gzip stream ") {
			continue
		}
		if unnoticed++; unnoticed > 2 || !slices.Equal(got, want) {
			t.Errorf("bit %d of byte %d of %d: %+v, %v, want an error of gzip", i%8, i, len(whole), result, err)
		}
	}
}

// TestErrorsOfTheReader lets the reader of a plain log fail once, within the part that
// detection reads and behind it.
func TestErrorsOfTheReader(t *testing.T) {
	for _, lines := range []int{1, 50_000} {
		for _, failure := range []error{errors.New("disk"), io.ErrUnexpectedEOF} {
			log := io.MultiReader(strings.NewReader(biggerLog(lines)), &once{failure})
			_, _, result, err := collect(log, accesslog.Config{})
			if !errors.Is(err, failure) || err.Error() != "log: "+failure.Error() || result.Events != int64(lines) {
				t.Errorf("%d lines, then %v: %+v, %v", lines, failure, result, err)
			}
		}
	}
}

// once fails on its first read and returns io.EOF on later ones.
type once struct{ err error }

func (o *once) Read([]byte) (int, error) {
	err := o.err
	o.err = io.EOF
	return 0, err
}

func TestReadsOfOneByte(t *testing.T) {
	log := biggerLog(100)
	want, _, _, _ := collect(strings.NewReader(log), accesslog.Config{})
	for _, in := range []io.Reader{strings.NewReader(log), bytes.NewReader(packed(log))} {
		if got, _, _, err := collect(iotest.OneByteReader(in), accesslog.Config{}); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d events (%v), want %d", len(got), err, len(want))
		}
	}
}

// TestReadStartsNoGoroutine holds that an error of emit ends a read at once, even if
// the input would block.
func TestReadStartsNoGoroutine(t *testing.T) {
	log := bytes.NewReader(packed(biggerLog(1000)))
	before, most := runtime.NumGoroutine(), 0
	_, err := accesslog.Read(log, "log", accesslog.Config{}, func(accesslog.Event) error {
		most = max(most, runtime.NumGoroutine())
		return nil
	})
	if err != nil || most > before {
		t.Errorf("%d goroutines while reading (%v), %d before", most, err, before)
	}
}

// TestLinesDoNotAllocate compares a log with one ten times as long.
func TestLinesDoNotAllocate(t *testing.T) {
	csv := func(lines int) string { return "time,key,cost\n" + strings.Repeat("1700158546680,10.0.0.1,3\n", lines) }
	ignore := func(accesslog.Event) error { return nil }

	for name, log := range map[string]func(int) string{"common": biggerLog, "csv": csv} {
		allocations := func(lines int) float64 {
			text := log(lines)
			return testing.AllocsPerRun(5, func() {
				_, _ = accesslog.Read(strings.NewReader(text), "log", accesslog.Config{}, ignore)
			})
		}

		if few, many := allocations(2000), allocations(20_000); many > few+10 {
			t.Errorf("%s: %v allocations for 20,000 lines, %v for 2,000", name, many, few)
		}
	}
}
