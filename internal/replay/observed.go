package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// Agreement says how far the authoritative of a replay, the model, decides as the log says that the limiter of that day did,
// request by request. Its JSON form is the command line's contract.
type Agreement struct {
	Requests int64 `json:"requests"` // of which the log says it
	Unknown  int64 `json:"unknown"`  // of which it does not
	Agree    int64 `json:"agree"`
	// Agreement is agree of requests; nil without any.
	Agreement *float64 `json:"agreement"`
	// ModelDenies are requests that the log allowed and the model denies, ModelAllows the other direction. Each ratio is of
	// all that the log allowed, or denied; nil without any.
	ModelDenies      int64    `json:"model_denies"`
	ModelDeniesRatio *float64 `json:"model_denies_ratio"`
	ModelAllows      int64    `json:"model_allows"`
	ModelAllowsRatio *float64 `json:"model_allows_ratio"`
	// Hours are the ones with the most requests in which the two differ, the keys the ones that have them.
	Hours           []DifferingHour     `json:"hours"`
	KeysModelDenied []evidence.KeyCount `json:"keys_model_denies"`
	KeysModelAllows []evidence.KeyCount `json:"keys_model_allows"`
}

// DifferingHour is an hour in which the model differs from the log.
type DifferingHour struct {
	From        time.Time `json:"from"`
	Requests    int64     `json:"requests"`
	ModelDenies int64     `json:"model_denies"`
	ModelAllows int64     `json:"model_allows"`
}

// model counts how the authoritative differs from the log. Its outcomes have the log for their authoritative and
// the model for their candidate.
type model struct {
	total evidence.Tally
	hours map[int64]*evidence.Tally
	keys  map[uint32]*[2]int64 // that differ: denied by the model, allowed by it
}

// observe compares the answer of the authoritative with what the log says.
func (m *model) observe(e event, o *algorithms.Observation) {
	sides := [2]algorithms.Observation{{Status: algorithms.Judged}, {Status: algorithms.Judged}}
	sides[0].Decision.Allowed = e.observed == ObservedAllowed
	sides[1].Decision.Allowed = o.Decision.Allowed
	outcome := evidence.Compare(&sides)
	m.total[outcome]++

	hour := time.UnixMicro(e.at).Unix() / 3600
	if m.hours[hour] == nil {
		m.hours[hour] = &evidence.Tally{}
	}
	m.hours[hour][outcome]++

	if outcome == evidence.NewlyDenied || outcome == evidence.NewlyAllowed {
		if m.keys[e.key] == nil {
			m.keys[e.key] = &[2]int64{}
		}
		m.keys[e.key][outcome-evidence.NewlyDenied]++
	}
}

// agreement is nil if the log does not say what the limiter did. The evaluations are those of the run.
func (m *model) agreement(names []string, evaluations int64) *Agreement {
	if m == nil {
		return nil
	}

	t := m.total
	ratios := t.Ratios()
	a := &Agreement{
		Requests: t.Comparisons(), Unknown: evaluations - t.Comparisons(), Agree: t[evidence.AgreeAllow] + t[evidence.AgreeDeny],
		ModelDenies: t[evidence.NewlyDenied], ModelDeniesRatio: ratios.NewlyDenied,
		ModelAllows: t[evidence.NewlyAllowed], ModelAllowsRatio: ratios.NewlyAllowed,
		Hours: m.worstHours(),
	}
	if a.Requests > 0 {
		share := float64(a.Agree) / float64(a.Requests)
		a.Agreement = &share
	}
	a.KeysModelDenied, a.KeysModelAllows = m.worstKeys(names, 0), m.worstKeys(names, 1)
	return a
}

// worstHours are the hours with the most differences, of equal ones the earlier first.
func (m *model) worstHours() []DifferingHour {
	list := []DifferingHour{}
	for _, hour := range slices.Sorted(maps.Keys(m.hours)) {
		t := m.hours[hour]
		if denies, allows := t[evidence.NewlyDenied], t[evidence.NewlyAllowed]; denies+allows > 0 {
			list = append(list, DifferingHour{time.Unix(hour*3600, 0).UTC(), t.Comparisons(), denies, allows})
		}
	}
	slices.SortStableFunc(list, func(a, b DifferingHour) int {
		return cmp.Compare(b.ModelDenies+b.ModelAllows, a.ModelDenies+a.ModelAllows)
	})
	return list[:min(len(list), shownHours)]
}

// shownHours is how many hours an agreement names.
const shownHours = 5

// worstKeys are the keys that differ most in one direction.
func (m *model) worstKeys(names []string, direction int) []evidence.KeyCount {
	all := []evidence.KeyCount{}
	for key, counts := range m.keys {
		if n := counts[direction]; n > 0 {
			all = append(all, evidence.KeyCount{Key: names[key], Count: n})
		}
	}
	return evidence.MergeTop(status.TopKeys, all)
}

// mostModelAllows is how much of what the log denied a model may allow, where the policy has no threshold for that: of a limiter
// that allows half of it the log says little.
const mostModelAllows = 0.5

// Warning says that a verdict rests on a model that differs from the log by more than the thresholds of the gate; "" if it
// does not.
func (a *Agreement) Warning(policy string, cfg gate.Config) string {
	cfg = cfg.WithDefaults()
	var why []string
	above := func(ratio *float64, threshold float64, text string) {
		if ratio != nil && *ratio > threshold {
			why = append(why, fmt.Sprintf("%s %s, above %s", humanize.Percent(*ratio), text, humanize.Percent(threshold)))
		}
	}

	// A model that errs as far as no candidate may is another limiter.
	above(a.ModelDeniesRatio, cfg.NewlyDenied, "of what the log allowed is denied by it")
	above(a.ModelAllowsRatio, cmp.Or(cfg.NewlyAllowed, mostModelAllows), "of what the log denied is allowed by it")
	if a.Agreement != nil {
		differs := float64(a.ModelDenies+a.ModelAllows) / float64(a.Requests)
		above(&differs, cfg.Divergence, "of all requests differ")
	}

	if why == nil {
		return ""
	}
	const text = "policy %s: the authoritative is no faithful model of the limiter that wrote the log, so the verdict is of another one: %s"
	return fmt.Sprintf(text, policy, strings.Join(why, "; "))
}

// of says of how many requests the model decides as the log.
func (a *Agreement) of() string {
	return fmt.Sprintf("%s of %s", humanize.Percent(*a.Agreement), humanize.Counted(a.Requests, "request"))
}

func (a *Agreement) writeText(b *strings.Builder) {
	if a == nil || a.Agreement == nil {
		return
	}

	fmt.Fprintf(b, "  today's model  decides as the log for %s\n", a.of())
	if a.Unknown > 0 {
		fmt.Fprintf(b, "                 %s without an answer\n", humanize.Counted(a.Unknown, "request"))
	}

	direction := func(n int64, ratio *float64, text, of string, keys []evidence.KeyCount) {
		if n == 0 {
			return
		}
		fmt.Fprintf(b, "    %s %s, %s of what the log %s\n", text, humanize.Grouped(n), humanize.Percent(*ratio), of)
		for _, k := range keys[:min(len(keys), 3)] {
			fmt.Fprintf(b, "      %10s  %s\n", humanize.Grouped(k.Count), humanize.Printable(k.Key))
		}
	}
	direction(a.ModelDenies, a.ModelDeniesRatio, "denied by the model alone:", "allowed", a.KeysModelDenied)
	direction(a.ModelAllows, a.ModelAllowsRatio, "allowed by the model alone:", "denied", a.KeysModelAllows)
	for i, h := range a.Hours {
		if i == 0 {
			b.WriteString("    hours with the most differences, UTC\n")
		}
		fmt.Fprintf(b, "      %s  %s of %s\n", h.From.Format("2006-01-02 15:04"),
			humanize.Grouped(h.ModelDenies+h.ModelAllows), humanize.Counted(h.Requests, "request"))
	}
}
