package shadow

import (
	"encoding/json"
	"net/http"

	"github.com/shadowlimit/shadowlimit/internal/fleet"
)

// RedButtonHandler returns the red button as an HTTP handler, for a service that has a place
// for operators. POST presses it, DELETE releases what POST or the signal has pressed, and
// GET reports it and changes nothing. All three answer with JSON: pressed, by (file, signal,
// handler or program), kept, which says that a restart finds the button as it is, and
// not_stored, the orders to roll back that Redis does not have yet. POST answers as soon as
// they are stored, or after 2 s.
//
// POST is refused with status 409 where it would deny every request of a policy: its
// candidate is enforced and answers, the store of its authoritative does not, and the policy
// has on_store_failure: deny. The field would_deny says so, of GET too; POST with the query
// force=true presses all the same.
//
// Mount it behind the authorization of your service: it stops a migration. Requests that a
// browser sends on behalf of another site are refused with status 403.
func (h *Harness) RedButtonHandler() http.Handler { return h.buttonHandler() }

// RedButtonHandler returns the red button as an HTTP handler; see [Harness.RedButtonHandler].
func (p *Pair) RedButtonHandler() http.Handler { return p.buttonHandler() }

func (i *instance) buttonHandler() http.Handler {
	b, f := i.fleet.Button, i.fleet
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var denies []string
		if !i.engine.Overruled.Load() {
			denies = i.pressDenies()
		}
		refused := len(denies) > 0 && r.Method == http.MethodPost && r.URL.Query().Get("force") != "true"
		switch {
		case refused, r.Method == http.MethodGet, r.Method == http.MethodHead:
		case r.Method == http.MethodPost:
			denies = nil
			b.Set(true, fleet.ByHandler)
			f.SettlePress(r.Context())
		case r.Method == http.MethodDelete:
			b.Set(false, fleet.ByHandler, fleet.BySignal)
			f.SettlePress(r.Context())
		default:
			w.Header().Set("Allow", "GET, HEAD, POST, DELETE")
			http.Error(w, "POST presses the red button, DELETE releases it, GET reports it", http.StatusMethodNotAllowed)
			return
		}

		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/json")
		report := f.ReportPress(r.Context())
		report.Denies = denies
		if refused {
			report.Next = "repair that store: shadowlimit doctor; POST with ?force=true presses all the same"
			w.WriteHeader(http.StatusConflict)
		}
		json.NewEncoder(w).Encode(report) // an error means that the client has disconnected
	}))
}
