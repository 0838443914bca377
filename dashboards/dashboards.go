// Package dashboards has three Grafana dashboards of the metrics of a service:
// "Migration overview" (is it safe to promote?), "Divergence drill-down" (which
// clients are harmed, and why?) and "Runtime and Redis" (does it run well?).
//
// They are classic JSON for provisioning: fixed uids, no ids, no inputs. The data
// source, jobs, instances, the service and its policies are variables.
package dashboards

import "embed"

// Files holds the dashboards, one JSON file each.
//
//go:embed *.json
var Files embed.FS
