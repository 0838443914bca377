// Package alerts holds the recording rules and alerts for Prometheus. The command
// line writes them into a folder:
//
//	shadowlimit alerts export /etc/prometheus/rules
//
// Each alert has a page in docs/runbooks. A candidate in shadow affects no client, so
// a difference in shadow is never more than severity info.
//
// The rules are written for Prometheus 2.42 and later.
package alerts

import "embed"

// Rules holds the rule files without their tests: a Prometheus that reads every file
// of a folder would not start with a test file in it.
//
//go:embed shadowlimit.rules.yaml
var Rules embed.FS
