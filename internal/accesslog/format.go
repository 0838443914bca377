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
	CSV                    // a header line, then one record a line, by comma, semicolon, tab or bar
	VHost                  // the virtual host, then common or combined: Apache's vhost_combined
	ELB                    // AWS load balancers: ALB, and the classic ELB
	HAProxy                // HAProxy's httplog
	W3C                    // W3C extended, with #Fields: IIS, CloudFront
	Zeek                   // Zeek's tables, with #fields
	Envoy                  // Envoy's default text, also Istio's
	formats
)

// kind is what a format needs beside the name of its constant: one row a format.
type kind struct {
	name   string
	is     func(line []byte) bool // tells its lines from those of other formats; nil: detect has a rule of its own
	parser func(*lineReader, Config, layout, *clock) (parser, error)
	whole  bool // a line that was cut is none
	named  bool // its fields have names
	// Its times have one form, and are in UTC.
	oneForm, utc bool
}

var kinds = [formats]kind{
	Auto:     {name: "auto"},
	Common:   {name: "common", parser: commonParser},
	Combined: {name: "combined", parser: commonParser},
	JSONL:    {name: "jsonl", is: isObject, parser: jsonParser, whole: true, named: true},
	CSV:      {name: "csv", parser: csvParser, whole: true, named: true},
	VHost:    {name: "vhost", parser: commonParser},
	ELB:      {name: "elb", is: isPlaced(cutELB), parser: placedParser(cutELB), oneForm: true, utc: true},
	HAProxy:  {name: "haproxy", is: isPlaced(cutHAProxy), parser: haproxyParser, oneForm: true},
	W3C:      {name: "w3c", is: isW3C, parser: w3cParser, whole: true, named: true, oneForm: true, utc: true},
	Zeek:     {name: "zeek", is: isZeek, parser: zeekParser, whole: true, named: true},
	Envoy:    {name: "envoy", is: isPlaced(cutEnvoy), parser: placedParser(cutEnvoy), oneForm: true, utc: true},
}

// String returns the name that ParseFormat reads.
func (f Format) String() string {
	if f < Auto || f >= formats {
		return fmt.Sprintf("Format(%d)", int(f))
	}
	return kinds[f].name
}

// FormatNames returns the names that ParseFormat reads.
func FormatNames() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// writers are programs by the format that they write unless they are told otherwise.
var writers = map[string]Format{
	"nginx": Combined, "apache": Combined, "httpd": Combined, "traefik": Common, "caddy": JSONL, "json": JSONL, "ndjson": JSONL,
	"alb": ELB, "aws": ELB, "iis": W3C, "cloudfront": W3C, "tsv": CSV, "bro": Zeek, "istio": Envoy,
}

// ParseFormat returns the format with the given name.
func ParseFormat(name string) (Format, error) {
	for i, k := range kinds {
		if k.name == name {
			return Format(i), nil
		}
	}
	if meant, known := writers[strings.ToLower(name)]; known {
		return Auto, fmt.Errorf("no format %q: its usual one is %s", name, meant)
	}
	return Auto, fmt.Errorf("no format %q: want one of %s", name, strings.Join(FormatNames(), ", "))
}

// Named reports whether the fields of the lines have names, so that Fields can choose among them.
func (f Format) Named() bool { return f > Auto && f < formats && kinds[f].named }

// ByClient reports whether the key of a line is the address of the client, whatever Fields say.
func (f Format) ByClient() bool { return f != Auto && !f.Named() }

// Fields names the fields of JSON lines and of tables.
type Fields struct {
	Time string // "" means the first that exists of those that are known, time before others
	Key  string // "" means key, or else the client's address
	Cost string // "" means cost; a line without that field costs 1
}

// knownTimes are the fields in which logs have the time. StartUTC is Traefik's, more exact than its time.
var knownTimes = []string{
	"StartUTC", "time", "t_ns", "t_us", "t_ms", "t_s", "ts", "@timestamp", "timestamp", "start_time", "time_iso8601", "msec",
	"time_local", "requestReceivedAt", "requestTimeEpoch", "requestTime", "EdgeStartTimestamp", "started_at", "datetime", "date_time",
	"StartLocal", "event_time", "log_time", "_time",
}

func (f Fields) times() []string {
	if f.Time != "" {
		return []string{f.Time}
	}
	return knownTimes
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

// Result counts the lines of a log. A blank line counts in Lines only.
type Result struct {
	Format             Format
	Lines, Events, Bad int64
	// Zoned reports that a time had no zone, so that Config.Zone has decided its instant, or UTC where HAProxy's has none.
	Zoned bool
	// Proxied counts the lines whose client is of X-Forwarded-For, and Edges those whose peer is a public address that has another
	// client in X-Forwarded-For: the edge of a CDN, unless the client has made it up.
	Proxied, Edges int64
	// Sum is a fingerprint of the first lines, at most a hundred, and 0 for a log without any.
	Sum uint64
}
