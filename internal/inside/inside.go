// Package inside lets tests and commands of this module reach what a service does not see: the stages of a
// harness as they are stored, its assessments in full, and a harness that follows a log. Package shadow fills it in when it is
// imported.
package inside

import (
	"context"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/fleet"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

var (
	// Stages returns where a *shadow.Harness or *shadow.Pair keeps its stages.
	Stages func(of any) stages.Store
	// Assess assesses all policies of a *shadow.Harness or *shadow.Pair by the evidence in its ledger.
	Assess func(ctx context.Context, of any) ([]stages.Assessment, error)
	// Follow returns a *shadow.Harness that judges nothing, and its fleet: their owner counts in the recorders of its policies, and
	// writes what it has counted. A nil client means memory.
	Follow func(*policies.Set, redis.UniversalClient, *slog.Logger) (harness any, f *fleet.Fleet, err error)
)
