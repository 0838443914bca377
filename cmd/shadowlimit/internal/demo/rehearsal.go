package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Rehearsal is the migration of a policy of the user's, with the requests of a log.
type Rehearsal struct {
	File   string // name of the policy file, for errors
	Text   []byte
	Policy string // the one to rehearse
	// Promotion overrules fields of the file's promotion, by their names there, such as soak: 24h.
	Promotion map[string]string
	// Requests are the ones that the policy charges, and Note says which of the log's they are.
	Requests []*Request
	Note     string
}

// brokenHeader is the header by which the candidate of a rehearsal goes wrong. No log has it.
const brokenHeader = "X-Shadowlimit-Rehearsal"

// Calm and Aftermath are how long a rehearsal goes on after the promotion, until the regression, and after the rollback.
const (
	Calm      = 3 * time.Hour
	Aftermath = 6 * time.Hour
)

// Rehearse plays the migration on a Redis of its own.
func Rehearse(ctx context.Context, cfg Config, r Rehearsal) error {
	text, err := r.policyFile()
	if err != nil {
		return err
	}
	set, err := policies.Load(r.File, text)
	if err != nil {
		return fmt.Errorf("rehearse policy %s: %w", r.Policy, err)
	}

	inOrder(r.Requests)
	return run(ctx, cfg, &story{
		set: set, policy: r.Policy, requests: r.Requests, broken: http.Header{brokenHeader: {"1"}},
		opening: fmt.Sprintf(rehearsing, r.Policy, r.Note, humanize.Span(span(r.Requests))), regression: denies, aftermath: Aftermath,
	})
}

// span returns the time from the first request to the last one.
func span(list []*Request) time.Duration { return list[len(list)-1].Time.Sub(list[0].Time) }

const rehearsing = `A rehearsal of policy %s: %s, over %s.

  server   %%s/  (and /metrics, and /status to look at, while the rehearsal runs)
  Redis    %%s  (in this process; its clock is wound forward)

Each step is taken as soon as the gate says pass, whatever the file's mode and change
window are. Some hours after the promotion the candidate begins to deny every request.

`

const denies = `  !! %s: from now on the candidate denies every request
`
