// Package dashboards has three Grafana dashboards of the metrics of a service:
// "Decide" (may the next step be taken, or must the candidate be rolled back?),
// "Find out" (who is hurt, and why?) and "Machinery" (do the instances, their
// stores and their files work?).
//
// They are classic JSON for provisioning: fixed uids, no ids, no inputs. The data
// source, jobs, instances, the service and its policies are variables.
package dashboards

import "embed"

// Files holds the dashboards, one JSON file each.
//
//go:embed *.json
var Files embed.FS
