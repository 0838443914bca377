// Package alerts holds the recording rules and alerts for Prometheus. The command
// line writes them into a folder:
//
//	shadowlimit alerts export /etc/prometheus/rules
//
// Each alert has a page in docs/runbooks. A candidate that is enforced for nobody
// hurts nobody: in shadow a difference is never more than severity info.
//
// The rules are written for Prometheus 2.42 and later.
package alerts

import "embed"

// Rules holds the rule files. Their tests are beside them in this folder and are
// left out: a Prometheus that reads every file of a folder would not start.
//
//go:embed shadowlimit.rules.yaml
var Rules embed.FS
