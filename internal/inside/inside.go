// Package inside lets tests of this module reach what a service does not see: the stages of a
// harness as they are stored, and its assessments in full. Package shadow fills it in when it is
// imported.
package inside

import (
	"context"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

var (
	// Stages returns where a *shadow.Harness or *shadow.Pair keeps its stages.
	Stages func(of any) stages.Store
	// Assess assesses all policies of a *shadow.Harness or *shadow.Pair by the evidence in its ledger.
	Assess func(ctx context.Context, of any) ([]stages.Assessment, error)
)
