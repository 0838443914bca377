package shadow

import (
	"context"
	"net/http"

	"github.com/shadowlimit/shadowlimit/internal/status"
)

// statusPage returns the page of a Harness or a Pair; see status.Page. fileTrouble says why the policy file cannot be used.
func (i *instance) statusPage(fileTrouble func() string) http.Handler {
	report := func(ctx context.Context) (status.Report, error) {
		list, err := i.fleet.Judged(ctx)
		if err != nil {
			return status.Report{}, err
		}
		return status.Of(ctx, i.cfg.name, i.fleet.Ledger, list)
	}
	return status.Page(status.Source{Report: report, Here: func() status.Here {
		h := i.here()
		h.FileTrouble = fileTrouble()
		return h
	}})
}
