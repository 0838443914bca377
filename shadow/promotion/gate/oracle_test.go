package gate_test

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// The oracle: the definition of the gate, walked one minute at a time, in exact
// arithmetic. It is slow, and shares nothing with the gate but its data types.

const hour, day = 60, 24 * 60 // minutes

// verdicts that the oracle knows by their names in the design.
const (
	fail         = "fail"
	insufficient = "insufficient_evidence"
	wait         = "wait"
	pass         = "pass"
)

type oracleBlock struct {
	from, to    int64 // minutes, to not included
	part, whole int64
	missing     int64 // without a comparison
	bad         bool
}

type oracleRatio struct {
	p0              *big.Rat
	part, whole     int64
	blocks          []oracleBlock
	score           oracleScore
	alarm, evidence oracleScore
	lately          [2]int64 // of the last day, part and whole
}

type oracle struct {
	cfg        gate.Config
	e          gate.Evidence
	since, now int64
	seen       map[int64]divergence.Minute
	live       map[int64]bool
	invalid    map[int64]bool // hours
	ratios     [4]oracleRatio
	strikes    int
	clean      int64 // minutes
	verdict    string
}

// decimal is the number that was written in the configuration, not the float
// next to it.
func decimal(p float64) *big.Rat {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(p, 'g', -1, 64))
	if !ok {
		panic("not a number")
	}
	return r
}

// needed is the least n with n*p0 >= k.
func needed(k int64, p0 *big.Rat) int64 {
	least := new(big.Rat).Quo(big.NewRat(k, 1), p0)
	n := new(big.Int).Quo(least.Num(), least.Denom()).Int64()
	if !least.IsInt() {
		n++
	}
	return n
}

// upTo is b = min(5*p0, (1+p0)/2).
func upTo(p0 *big.Rat) *big.Rat {
	five := new(big.Rat).Mul(big.NewRat(5, 1), p0)
	half := new(big.Rat).Mul(big.NewRat(1, 2), new(big.Rat).Add(big.NewRat(1, 1), p0))
	if five.Cmp(half) < 0 {
		return five
	}
	return half
}

// fraction spells the four ratios out.
func fraction(i int, t divergence.Tally) (part, whole int64) {
	// Declared differences are in denominators as if the sides had agreed.
	agreeAllow := t[divergence.AgreeAllow] + t[divergence.ExpectedDenied]
	agreeDeny := t[divergence.AgreeDeny] + t[divergence.ExpectedAllowed]
	denied, allowed, failed := t[divergence.NewlyDenied], t[divergence.NewlyAllowed], t[divergence.CandidateError]
	switch i {
	case 0:
		return denied + allowed + failed, agreeAllow + agreeDeny + denied + allowed + failed
	case 1:
		return denied, agreeAllow + denied
	case 2:
		return allowed, agreeDeny + allowed
	}
	return allowed, agreeAllow + denied
}

func coverage(t divergence.Tally) (compared, all int64) {
	_, compared = fraction(0, t)
	return compared, compared + t[divergence.AuthoritativeError] + t[divergence.Inconclusive]
}

func enoughCovered(t divergence.Tally) bool {
	compared, all := coverage(t)
	return big.NewRat(compared, max(all, 1)).Cmp(big.NewRat(99, 100)) >= 0 || all == 0
}

func consult(cfg gate.Config, e gate.Evidence) *oracle {
	o := &oracle{cfg: cfg, e: e, since: (e.Since.Unix() + 59) / 60, now: e.Now.Unix() / 60} // whole minutes
	o.lookUp()
	o.findInvalidHours()
	for i, p := range []float64{cfg.Divergence, cfg.NewlyDenied, cfg.NewlyAllowed, cfg.ExtraLoad} {
		o.ratios[i] = o.follow(i, decimal(p))
	}
	o.countStrikes()
	o.countClean()
	o.verdict = o.judge()
	return o
}

func (o *oracle) lookUp() {
	o.seen, o.live = map[int64]divergence.Minute{}, map[int64]bool{}
	for _, m := range o.e.History.Minutes {
		o.seen[m.Unix] = m
	}
	for _, s := range o.e.History.Live {
		for t := s.From; t < s.To; t++ {
			o.live[t] = true
		}
	}
}

func (o *oracle) findInvalidHours() {
	o.invalid = map[int64]bool{}
	of := map[int64]divergence.Tally{}
	for t := o.since; t < o.now; t++ {
		sum := of[t/hour]
		sum.Add(o.seen[t].Tally)
		of[t/hour] = sum
	}
	for h, sum := range of {
		o.invalid[h] = !enoughCovered(sum)
	}
}

// follow cuts one ratio's blocks: a block is over with the first minute after
// which it is both long enough and full enough.
func (o *oracle) follow(i int, p0 *big.Rat) oracleRatio {
	// Raw ratios are of all evidence, whole minutes or not.
	r := oracleRatio{p0: p0}
	for _, m := range o.e.History.Minutes {
		part, whole := fraction(i, m.Tally)
		r.part, r.whole = r.part+part, r.whole+whole
	}

	least, length := needed(1, p0), int64(hour)
	b, keys := oracleBlock{from: o.since}, map[uint64]bool{}
	for t := o.since; t < o.now; t++ {
		m := o.seen[t]
		part, whole := fraction(i, m.Tally)
		if !o.invalid[t/hour] {
			compared, all := coverage(m.Tally)
			b.part, b.whole, b.missing = b.part+part, b.whole+whole, b.missing+all-compared
			for _, key := range m.Keys[min(i, 2)] { // newly allowed keys are extra load, too
				keys[key] = true
			}
		}
		if b.to = t + 1; b.to-b.from < length || b.whole < least {
			continue
		}

		// A quarter of what the threshold allows in a day, at the mean rate of all blocks so far.
		busy, minutes := b.whole, b.to-b.from
		for _, earlier := range r.blocks {
			busy, minutes = busy+earlier.whole, minutes+earlier.to-earlier.from
		}
		budget := new(big.Rat).Mul(p0, big.NewRat(busy*day, 4*minutes))
		b.bad = big.NewRat(b.part, b.whole).Cmp(upTo(p0)) > 0 && len(keys) >= 3 &&
			b.whole >= needed(5, p0) && big.NewRat(b.part, 1).Cmp(budget) >= 0
		r.blocks = append(r.blocks, b)
		b, keys = oracleBlock{from: t + 1}, map[uint64]bool{}
	}

	wholes := make([]int64, len(r.blocks))
	raw := make([]float64, len(r.blocks))
	for i, b := range r.blocks {
		wholes[i], raw[i] = b.whole, float64(b.part)/float64(b.whole)
	}
	weights := weightsOf(wholes)
	r.score = scoreOf(r.values(), weights, p0)
	r.alarm, r.evidence = mirrorOf(raw, weights, p0)
	r.lately = o.lately(i, needed(1, p0))
	return r
}

// lately walks back from now until a day is over and there are as many as needed.
func (o *oracle) lately(i int, least int64) (sum [2]int64) {
	for t := o.now - 1; t >= o.since && (t >= o.now-day || sum[1] < least); t-- {
		if !o.invalid[t/hour] {
			part, whole := fraction(i, o.seen[t].Tally)
			sum[0], sum[1] = sum[0]+part, sum[1]+whole
		}
	}
	return sum
}

// weightsOf spells out the weight of each block: its denominator over that of the block at four
// fifths of the earlier ones, at most 1.
func weightsOf(wholes []int64) []*big.Rat {
	list := make([]*big.Rat, len(wholes))
	var earlier []int64 // in order
	for i, whole := range wholes {
		list[i] = new(big.Rat)
		if n := len(earlier); n > 0 {
			list[i].SetFrac64(min(whole, earlier[(n-1)*4/5]), earlier[(n-1)*4/5])
		}
		at, _ := slices.BinarySearch(earlier, whole)
		earlier = slices.Insert(earlier, at, whole)
	}
	return list
}

func exactly(v []float64) []*big.Rat {
	list := make([]*big.Rat, len(v))
	for i, f := range v {
		list[i] = new(big.Rat).SetFloat64(f)
	}
	return list
}

// values are the blocks' ratios for the score: whatever could not be compared was different.
func (r *oracleRatio) values() []float64 {
	x := make([]float64, len(r.blocks))
	for i, b := range r.blocks {
		x[i] = float64(b.part+b.missing) / float64(b.whole+b.missing)
	}
	return x
}

// atOrAbove: the raw ratio is at the threshold or above.
func (r *oracleRatio) atOrAbove() bool {
	return r.whole > 0 && big.NewRat(r.part, r.whole).Cmp(r.p0) >= 0
}

// oracleScore is a score without bounds, and whether floating point could follow
// all the way.
type oracleScore struct {
	value   *big.Float
	bounded bool
}

func precise(r *big.Rat) *big.Float { return new(big.Float).SetPrec(200).SetRat(r) }

// scoreOf is the mean over both halves of the blocks, and over the bets, of the products.
func scoreOf(x []float64, weights []*big.Rat, p0 *big.Rat) oracleScore {
	b := upTo(p0)
	sum, bounded := precise(new(big.Rat)), true
	for half := range 2 {
		for _, g := range []*big.Rat{big.NewRat(2, 10), big.NewRat(5, 10), big.NewRat(9, 10)} {
			product := precise(big.NewRat(1, 1))
			for i := half; i < len(x); i += 2 {
				capped := new(big.Rat).SetFloat64(x[i])
				if capped.Cmp(b) > 0 {
					capped = b
				}
				excess := new(big.Rat).Quo(new(big.Rat).Sub(capped, p0), new(big.Rat).Sub(b, p0))
				excess.Mul(excess, g).Mul(excess, weights[i])
				product.Mul(product, precise(new(big.Rat).Sub(big.NewRat(1, 1), excess)))
				bounded = bounded && moderate(product)
			}
			sum.Add(sum, product)
		}
	}
	return oracleScore{sum.Quo(sum, precise(big.NewRat(6, 1))), bounded}
}

// mirrorOf is the same for the other direction: R, and the product.
func mirrorOf(x []float64, weights []*big.Rat, p0 *big.Rat) (alarm, evidence oracleScore) {
	rises, products, bounded := precise(new(big.Rat)), precise(new(big.Rat)), true
	for _, g := range []*big.Rat{big.NewRat(1, 10), big.NewRat(3, 10), big.NewRat(6, 10)} {
		rise, product := precise(new(big.Rat)), precise(big.NewRat(1, 1))
		for i, v := range x {
			times := new(big.Rat).Quo(new(big.Rat).SetFloat64(v), p0)
			if most := big.NewRat(20, 1); times.Cmp(most) > 0 {
				times = most
			}
			factor := times.Sub(times, big.NewRat(1, 1)).Mul(times, g).Mul(times, weights[i])
			factor.Add(factor, big.NewRat(1, 1))

			// A nearly idle block adds no stake.
			if weights[i].Cmp(big.NewRat(1, 5)) >= 0 {
				rise.Add(rise, precise(big.NewRat(1, 1)))
			}
			rise.Mul(rise, precise(factor))
			product.Mul(product, precise(factor))
			bounded = bounded && moderate(product) && (rise.Sign() == 0 || moderate(rise))
		}
		rises.Add(rises, rise)
		products.Add(products, product)
	}
	three := precise(big.NewRat(3, 1))
	return oracleScore{rises.Quo(rises, three), bounded}, oracleScore{products.Quo(products, three), bounded}
}

// moderate reports whether floating point can follow.
func moderate(v *big.Float) bool {
	f, _ := v.Float64()
	return f < 1e299 && f > 1e-299
}

// countStrikes walks the time: a bad block that ends now is a strike unless it
// overlaps the strike before. So there are as many as bad blocks that lie apart.
func (o *oracle) countStrikes() {
	ending := map[int64][]oracleBlock{} // the bad ones
	for _, r := range o.ratios {
		for _, b := range r.blocks {
			if b.bad {
				ending[b.to] = append(ending[b.to], b)
			}
		}
	}

	free := o.since
	for t := o.since; t < o.now; t++ {
		struck := false
		for _, b := range ending[t+1] {
			struck = struck || b.from >= free
		}
		if struck && t >= o.now-7*day {
			o.strikes++
			free = t + 1
		}
	}
}

func (o *oracle) countClean() {
	from := o.since
	for _, r := range o.ratios {
		for _, b := range r.blocks {
			if b.bad {
				from = max(from, b.to)
			}
		}
	}

	for t := from; t < o.now; t++ {
		if o.live[t] && !o.invalid[t/hour] {
			o.clean++
		}
	}
}

// allHoursSeen: for half an hour on some day.
func (o *oracle) allHoursSeen() bool {
	var seen [24]bool
	there := map[int64]int{}
	for t := o.since; t < o.now; t++ {
		if o.live[t] && !o.invalid[t/hour] {
			there[t/hour]++
			seen[t/hour%24] = seen[t/hour%24] || there[t/hour] == hour/2
		}
	}
	return !slices.Contains(seen[:], false)
}

func (o *oracle) judge() string {
	switch {
	case o.failed():
		return fail
	case !o.sufficient():
		return insufficient
	case o.hasToWait():
		return wait
	}
	return pass
}

func (o *oracle) failed() bool {
	for _, r := range o.ratios {
		ninety := big.NewFloat(90 * 24)
		if r.alarm.value.Cmp(ninety) >= 0 || r.evidence.value.Cmp(big.NewFloat(20)) >= 0 && o.allHoursSeen() {
			return true
		}
	}
	return o.strikes >= 3
}

func (o *oracle) sufficient() bool {
	var total, lastDay divergence.Tally
	for _, m := range o.e.History.Minutes {
		total.Add(m.Tally)
		if m.Unix >= o.now-day {
			lastDay.Add(m.Tally)
		}
	}

	_, denials := fraction(2, total)
	return denials >= o.cfg.MinDenials &&
		o.e.History.Distinct[divergence.KeysDenied] >= o.cfg.MinDeniedKeys &&
		total[divergence.AgreeAllow] > 0 && total[divergence.AgreeDeny] > 0 &&
		enoughCovered(lastDay) && o.allHoursSeen() && o.enoughWeekdays() &&
		o.e.Live > 0 && len(o.e.NotWriting) == 0 && len(o.e.OtherFingerprint) == 0
}

func (o *oracle) hasToWait() bool {
	for _, r := range o.ratios {
		if r.atOrAbove() || r.score.value.Cmp(big.NewFloat(20)) < 0 || r.alarm.value.Cmp(big.NewFloat(24)) >= 0 {
			return true
		}
		if r.lately[1] > 0 && big.NewRat(r.lately[0], r.lately[1]).Cmp(r.p0) >= 0 {
			return true
		}
	}
	return time.Duration(o.clean)*time.Minute < o.soak()*time.Duration(o.strikes+1)
}

// soak is as declared, or by how many keys the step risks.
func (o *oracle) soak() time.Duration {
	switch percent := o.e.Step.Percent; {
	case !o.cfg.Graded:
		return o.cfg.Soak
	case percent > 50:
		return 168 * time.Hour
	case percent > 10:
		return 72 * time.Hour
	}
	return 48 * time.Hour
}

// enoughWeekdays: all seven for half a day, before a step to more than half of the keys.
func (o *oracle) enoughWeekdays() bool {
	if !o.cfg.Graded || o.e.Step.Percent <= 50 {
		return true
	}
	there := map[int64]int{}
	seen := map[time.Weekday]bool{}
	for t := o.since; t < o.now; t++ {
		if o.live[t] && !o.invalid[t/hour] {
			there[t/day]++
			if there[t/day] == day/2 {
				seen[time.Unix(t*60, 0).UTC().Weekday()] = true
			}
		}
	}
	return len(seen) == 7
}

// undecided: floating point had to give up on a score, so it proves nothing.
func (o *oracle) undecided() bool {
	return slices.ContainsFunc(o.ratios[:], func(r oracleRatio) bool {
		return !r.score.bounded && r.score.value.Cmp(big.NewFloat(1e300)) < 0 || !r.alarm.bounded
	})
}

// compare lists the differences between the gate and the oracle.
func (o *oracle) compare(g gate.Result) (differences []string) {
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	if g.Verdict != o.verdict && !o.undecided() {
		differ("verdict %s (%s), want %s", g.Verdict, g.Reason, o.verdict)
	}

	if g.Strikes != o.strikes {
		differ("%d strikes, want %d", g.Strikes, o.strikes)
	}
	if want := float64(o.clean) / hour; math.Abs(g.CleanHours-want) > 1e-9 {
		differ("%g clean hours, want %g", g.CleanHours, want)
	}

	for i, part := range []gate.RatioResult{g.Divergence, g.NewlyDenied, g.NewlyAllowed, g.ExtraLoad} {
		for _, d := range o.ratios[i].compare(part) {
			differ("%s: %s", divergence.AllRatios[i], d)
		}
	}
	return differences
}

func (r *oracleRatio) compare(g gate.RatioResult) (differences []string) {
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	switch {
	case (g.Ratio != nil) != (r.whole > 0):
		differ("ratio %v of %d", g.Ratio, r.whole)
	case r.whole > 0 && *g.Ratio != float64(r.part)/float64(r.whole):
		differ("ratio %g, want %d/%d", *g.Ratio, r.part, r.whole)
	}
	if (g.UpperBound != nil) != (len(r.blocks) > 0) || (g.LowerBound != nil) != (len(r.blocks) > 0) {
		differ("bounds %v, %v of %d blocks", g.LowerBound, g.UpperBound, len(r.blocks))
	}
	if g.Ratio != nil && g.UpperBound != nil && (*g.Ratio > *g.UpperBound || *g.Ratio < *g.LowerBound) {
		differ("bounds %g to %g contradict the ratio %g", *g.LowerBound, *g.UpperBound, *g.Ratio)
	}
	if want, _ := r.alarm.value.Float64(); r.alarm.bounded && math.Abs(g.Mirror-want) > 1e-9*want {
		differ("mirror %g, want %g of %d blocks", g.Mirror, want, len(r.blocks))
	}

	want, _ := r.score.value.Float64()
	switch {
	case r.score.bounded && math.Abs(g.Score-want) > 1e-9*want:
		differ("score %g, want %g of %d blocks", g.Score, want, len(r.blocks))
	case !r.score.bounded && want > 1e300 && math.IsInf(g.Score, 0):
		differ("score %g overflows", g.Score)
	}
	return differences
}
