package shadow

import (
	"log/slog"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// twinGroup is a group of two limits: the one of the setting, and one that is looser and forgets sooner.
func twinGroup(t *rapid.T, limit algorithms.Limit) *algorithms.Group {
	algorithm := rapid.SampledFrom([]algorithms.Algorithm{
		algorithms.FixedWindow{}, algorithms.SlidingWindowCounter{}, algorithms.GCRA{},
	})
	first, second := algorithm.Draw(t, "first"), algorithm.Draw(t, "second")
	looser := algorithms.Limit{Requests: limit.Requests - 1, Window: limit.Window / 2}

	return &algorithms.Group{
		Charge: rapid.SampledFrom([]algorithms.GroupCharge{algorithms.AllOrNothing, algorithms.UntilDenied}).Draw(t, "charge"),
		Members: []algorithms.Member{
			{Name: "slow", Algorithm: first, Limit: limit}, {Name: "fast", Algorithm: second, Limit: looser},
		},
	}
}

// Two groups that are the same never differ, whatever happens to them.
func TestTwinsOfGroupsDoNotDiffer(t *testing.T) {
	for _, arrangement := range twinArrangements {
		// All members of a group lie in one store, and none is foreign.
		if arrangement.places[0] != arrangement.places[1] {
			continue
		}

		t.Run(arrangement.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				window := twinTick * time.Duration(rapid.SampledFrom([]int{2, 4, 10}).Draw(t, "ticks"))
				limit := algorithms.Limit{Requests: rapid.Int64Range(3, 6).Draw(t, "limit"), Window: window}
				setting := twinSetting{
					algorithm: twinGroup(t, limit), limits: [2]algorithms.Limit{limit, limit}, places: arrangement.places,
					instances: rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "instances"),
				}
				if rapid.Bool().Draw(t, "promoted") {
					setting.stage = promotion.Step{Stage: promotion.Promoted}
				}
				program := drawTwinProgram(t, nil)

				var w *twinWorld
				rapid.SyncTest(t, func(*rapid.T) { w = runTwins(setting, program) })
				w.check(t, program)
			})
		})
	}
}

// A group beside a foreign limiter of today's is remembered as long as its members remember.
func TestGroupBesideAForeignLimiterIsRemembered(t *testing.T) {
	limit := algorithms.Limit{Requests: 2, Window: time.Hour}
	members := []algorithms.Member{{Name: "hour", Algorithm: algorithms.SlidingWindowCounter{}, Limit: limit}}
	group := algorithms.Side{Algorithm: &algorithms.Group{Members: members}}
	sides := [2]side{foreignSide(AllowFunc(func(string) bool { return true })), algorithmSide(group, storeOn(&failing{}))}
	m := newMigration(promotion.Spec{Policy: "p"}, sides, options{log: slog.New(slog.DiscardHandler)})

	c := algorithms.Charge{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Side{{}, group}}
	var ev evaluation
	ev.reset(m, 0, &c, declaration{})
	if got := time.UnixMicro(ev.forgotten(0)); got.Before(time.UnixMicro(0).Add(2 * time.Hour)) {
		t.Errorf("a charge of the epoch is forgotten at %v, want not before the next window ends", got.UTC())
	}
	if l := ev.limitOf(algorithms.Candidate, "hour"); l.Requests != 2 {
		t.Errorf("the limit of hour is %v", l)
	}
}
