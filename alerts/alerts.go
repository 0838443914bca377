// Package alerts holds the recording rules and alerts for Prometheus. The command
// line writes them into a folder:
//
//	shadowlimit alerts export /etc/prometheus/rules
//
// There are twelve, in three groups: harm now, the fleet cannot judge or roll back, the
// gate says pass. Each has a section in docs/runbook.md.
//
// The rules are written for Prometheus 2.42 and later.
package alerts

import "embed"

// Rules holds the rule files without their tests: a Prometheus that reads every file
// of a folder would not start with a test file in it.
//
//go:embed shadowlimit.rules.yaml
var Rules embed.FS

// Runbook is the page that the alerts link to.
const Runbook = "https://github.com/shadowlimit/shadowlimit/blob/main/docs/runbook.md"
