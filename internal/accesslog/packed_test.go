package accesslog_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
)

// A packed log has the events of the plain one, and one that is cut off says so.
func TestPacked(t *testing.T) {
	plain, err := os.ReadFile("testdata/common.log")
	if err != nil {
		t.Fatal(err)
	}
	bzipped, err := os.ReadFile("testdata/common.log.bz2")
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()

	want, _, _, _ := collect(bytes.NewReader(plain), accesslog.Config{})
	for name, packed := range map[string][]byte{"bzip2": bzipped, "zstd": encoder.EncodeAll(plain, nil)} {
		got, bad, _, err := collect(bytes.NewReader(packed), accesslog.Config{})
		if err != nil || bad != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q (%v), bad %q, want %q", name, got, err, bad, want)
		}

		_, _, _, err = collect(bytes.NewReader(packed[:len(packed)-9]), accesslog.Config{})
		if err == nil || !strings.Contains(err.Error(), "the "+name+" stream ends early") {
			t.Errorf("%s: cut off: %v", name, err)
		}

		flipped := slices.Clone(packed)
		flipped[len(flipped)/2] ^= 0x10
		if _, _, _, err = collect(bytes.NewReader(flipped), accesslog.Config{}); err == nil {
			t.Errorf("%s: a flipped bit is not found", name)
		}
	}
}

// Lines that end in carriage returns alone are lines.
func TestCarriageReturns(t *testing.T) {
	plain, err := os.ReadFile("testdata/combined.log")
	if err != nil {
		t.Fatal(err)
	}
	want, _, _, _ := collect(bytes.NewReader(plain), accesslog.Config{})
	returned := bytes.ReplaceAll(plain, []byte("\n"), []byte("\r"))
	if got, _, _, err := collect(bytes.NewReader(returned), accesslog.Config{}); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q (%v), want %q", got, err, want)
	}
}

// Forms of times are directives of strftime or layouts of Go.
func TestForms(t *testing.T) {
	tests := []struct{ format, give, want string }{
		{"%d/%b/%Y:%H:%M:%S %z", "10/Oct/2000:13:55:36 -0700", "971211336000000"},
		{"%Y-%m-%d %H:%M:%S.%f%z", "2024-03-01 10:00:00.25+0100", "1709283600250000"},
		{"%Y%m%dT%H%M%SZ", "20240301T100000Z", "1709287200000000"},
		{"2006.01.02 15:04:05 -0700", "2024.03.01 10:00:00 +0000", "1709287200000000"},
		{"%d.%m.%Y %H:%M:%S", "01.03.2024 10:00:00", ""},
	}

	for _, tt := range tests {
		format, err := accesslog.ParseTimeFormat(tt.format)
		if err != nil {
			t.Errorf("%s: %v", tt.format, err)
			continue
		}

		log := "time,key\n" + tt.give + ",a\n"
		events, bad, _, err := collect(strings.NewReader(log), accesslog.Config{TimeFormat: format})
		if tt.want == "" {
			if len(bad) != 1 || !strings.Contains(bad[0], "--time-zone") || !format.NeedsZone() {
				t.Errorf("%s: %q, bad %q, want a zone to be asked for", tt.format, events, bad)
			}
			continue
		}
		if err != nil || len(events) != 1 || events[0] != tt.want+" a 1" {
			t.Errorf("%s: %q, bad %q (%v), want %s", tt.format, events, bad, err, tt.want)
		}
	}

	for _, bad := range []string{"%Q", "%Y-%m-%d at %H", "%", "junk", "2006", "15:04:05"} {
		if format, err := accesslog.ParseTimeFormat(bad); err == nil {
			t.Errorf("%q is read as %+v, want an error", bad, format)
		}
	}
}

// A file that is packed twice, or has several files in it, says what to do: read as they are, both would be a log of junk.
func TestPackedAgain(t *testing.T) {
	plain, err := os.ReadFile("testdata/common.log")
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()

	header := make([]byte, 512)
	copy(header, "common.log")
	copy(header[257:], "ustar")
	archive := append(header, plain...)
	for want, packed := range map[string][]byte{
		"packed twice":  encoder.EncodeAll(encoder.EncodeAll(plain, nil), nil),
		"a tar archive": encoder.EncodeAll(archive, nil),
		"log: a tar":    archive,
	} {
		if got, _, _, err := collect(bytes.NewReader(packed), accesslog.Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q; read %q", err, want, got)
		}
	}
}
