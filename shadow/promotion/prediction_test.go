package promotion

import (
	"reflect"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Keys that are held back are among the others in the prediction, although the canary's percentage
// includes them: they have the authoritative.
func TestPredictionTakesHeldBackKeysForOthers(t *testing.T) {
	since := time.Unix(3600, 0)
	const percent, holdback = 75, 50

	// In the second hour the candidate is enforced for the lower half of the keys.
	hours := []divergence.Hour{{Unix: 0}, {Unix: 1}}
	for i := range hours {
		hours[i].Cells = make([]divergence.Cell, divergence.NumCells)
		for cell := range hours[i].Cells {
			role := 0
			if _, upper := divergence.CellRange(cell); i == 1 && upper <= 100-holdback {
				role = 1
			}
			hours[i].Cells[cell].Decided[role] = 1000
			hours[i].Cells[cell].Denied[role] = int64(100 + cell)
		}
	}

	c := NewController(NewMemoryStore(), divergence.NewMemoryLedger(), "test")
	a := Assessment{
		Spec:  Spec{Policy: "p", Epoch: "e", Config: Config{Holdback: holdback}.WithDefaults()},
		State: State{Stage: Canary, Percent: percent, Epoch: "e", StageAt: since},
	}
	a.Evidence.History.Hours, a.Evidence.Now = hours, since.Add(time.Hour)
	c.alarm(t.Context(), &a, c.reader("p", a.State))

	want := gate.Predict(hours, 100-holdback, 1)
	if want == nil || want.Off() || !reflect.DeepEqual(a.Prediction, want) {
		t.Errorf("prediction %v, want %v", a.Prediction, want)
	}
}
