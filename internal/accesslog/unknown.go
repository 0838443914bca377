package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// shape is a form that is not read, by the beginning of its first line, with what to do.
type shape struct {
	begins *regexp.Regexp
	advice string
}

func looks(begins, advice string) shape { return shape{regexp.MustCompile(begins), advice} }

var shapes = []shape{
	looks(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[[a-z]+\] \d+#`, "an error log of nginx, which has no requests: name the access log"),
	looks(`^\[\w{3} \w{3} .{15,30}\] \[[\w:]+\]`, "an error log of Apache, which has no requests: name the access log"),
	looks(`^\d{9,10}\.\d{3} +\d+ \S+ [A-Z_]+/\d{3} `, "Squid's own format: let Squid write combined, or convert it to CSV"),
	looks(`^[0-9a-f]{64} \S+ \[\d\d/`, "a server access log of S3: convert it to CSV"),
	looks(`^\s*\[\s*(\{.*)?$`, "a JSON array: jq -c '.[]' FILE | shadowlimit replay -"),
	looks(`^\s*\{\s*$`, "JSON over several lines: jq -c . FILE | shadowlimit replay -"),
	looks(`(?i)^\s*<(\?xml|!doctype|html)`, "XML or HTML, and no log"),
	looks(`^(\w[\w.-]*=("[^"]*"|\S*) ){2}`, "logfmt: convert it to JSON lines"),
	looks(`^(<\d+>)?(\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) `,
		"syslog or a container's log around lines of no known format: grep for the access log's lines"),
}

// unknown says that the format is not known, what the log looks like, and what to do.
func unknown(lines [][]byte) error {
	names := FormatNames()[1:]
	formats := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	for _, shape := range shapes {
		if shape.begins.Match(lines[0]) {
			return fmt.Errorf("cannot tell the format: it looks like %s", shape.advice)
		}
	}
	return fmt.Errorf("cannot tell the format (not %s); say --format, or convert it to CSV with a header; it begins with `%s`",
		formats, printable(lines[0], maxText-40))
}

// tarMagicAt is where a tar archive has its magic: in the header of its first file.
const tarMagicAt = 257

// packed are files that are not unpacked, by their first bytes, each with what to do.
var packed = []struct{ magic, advice string }{
	{"PK\x03\x04", "a zip archive: unzip -p FILE | shadowlimit replay -"},
	{"\xfd7zXZ\x00", "compressed by xz: xzcat FILE | shadowlimit replay -"},
	{"\x04\x22\x4d\x18", "compressed by lz4: lz4cat FILE | shadowlimit replay -"},
	{"\x1f\x9d", "compressed by compress: zcat FILE | shadowlimit replay -"},
	{"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: 7z x -so FILE | shadowlimit replay -"},
	{"PAR1", "a Parquet file: convert it to CSV or to JSON lines"},
	{"\xff\xfe", "text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | shadowlimit replay -"},
	{"\xfe\xff", "text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | shadowlimit replay -"},
}

// errTwice is a file that is packed twice: it was packed, and then rotated as a file that was not.
var errTwice = errors.New("packed twice: unpack it by zcat, bzcat or zstdcat, and pipe it into shadowlimit replay -")

// refuseUnpacked says what to do about what came out of a packed file.
func refuseUnpacked(head []byte) error {
	for _, p := range packings {
		if bytes.HasPrefix(head, []byte(p.magic)) {
			return errTwice
		}
	}
	return refusePacked(head)
}

// refusePacked says of a file that is not unpacked what to do.
func refusePacked(head []byte) error {
	for _, p := range packed {
		if bytes.HasPrefix(head, []byte(p.magic)) {
			return errors.New(p.advice)
		}
	}

	// The first file of an archive would be read, and the headers between the files would seem to be bad lines.
	if len(head) > tarMagicAt && bytes.HasPrefix(head[tarMagicAt:], []byte("ustar")) {
		return errors.New("a tar archive: tar -xOf FILE | shadowlimit replay -")
	}
	return nil
}
