package gate_test

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// The oracle: the definition of the gate, walked one minute at a time, with decimals as they are written and products
// instead of logarithms. It is slow, and shares nothing with the gate but its data types.

type oracleBlock struct {
	from, to    int64 // minutes, to not included
	part, whole int64
	missing     int64 // without a comparison
}

type oracleRatio struct {
	judged      bool
	part, whole int64
	blocks      []oracleBlock
	score       oracleScore
	alarm       oracleScore
	mirrored    oracleScore
}

type oracle struct {
	cfg        gate.Config
	e          gate.Evidence
	since, now int64
	seen       map[int64]evidence.Minute
	live       map[int64]bool
	invalid    map[int64]bool // hours
	ratios     [4]oracleRatio
	time       int64 // minutes that count
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

// fraction spells the four ratios out.
func fraction(i int, t evidence.Tally) (part, whole int64) {
	// Declared differences are in denominators as if the sides had agreed.
	agreeAllow := t[evidence.AgreeAllow] + t[evidence.ExpectedDenied]
	agreeDeny := t[evidence.AgreeDeny] + t[evidence.ExpectedAllowed]
	denied, allowed, failed := t[evidence.NewlyDenied], t[evidence.NewlyAllowed], t[evidence.CandidateError]
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

func coverage(t evidence.Tally) (compared, all int64) {
	_, compared = fraction(0, t)
	return compared, compared + t[evidence.AuthoritativeError] + t[evidence.Inconclusive]
}

func enoughCovered(t evidence.Tally) bool {
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
	for t := o.since; t < o.now; t++ {
		if o.live[t] && !o.invalid[t/hour] {
			o.time++
		}
	}
	o.verdict = o.judge()
	return o
}

func (o *oracle) lookUp() {
	o.seen, o.live = map[int64]evidence.Minute{}, map[int64]bool{}
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
	of := map[int64]evidence.Tally{}
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
	r := oracleRatio{judged: p0.Sign() > 0}
	for t := o.since; t < o.now; t++ {
		part, whole := fraction(i, o.seen[t].Tally)
		r.part, r.whole = r.part+part, r.whole+whole
	}
	if !r.judged {
		return r
	}

	least := needed(1, p0)
	b := oracleBlock{from: o.since}
	for t := o.since; t < o.now; t++ {
		m := o.seen[t]
		part, whole := fraction(i, m.Tally)
		if !o.invalid[t/hour] {
			compared, all := coverage(m.Tally)
			b.part, b.whole, b.missing = b.part+part, b.whole+whole, b.missing+all-compared
		}
		if b.to = t + 1; b.to-b.from >= hour && b.whole >= least {
			r.blocks = append(r.blocks, b)
			b = oracleBlock{from: t + 1}
		}
	}

	wholes := make([]int64, len(r.blocks))
	raw, taken := make([]float64, len(r.blocks)), make([]float64, len(r.blocks))
	for i, b := range r.blocks {
		wholes[i], raw[i] = b.whole, float64(b.part)/float64(b.whole)
		taken[i] = float64(b.part+b.missing) / float64(b.whole+b.missing)
	}
	busy := busyOf(wholes)
	p, _ := p0.Float64()
	r.score = scoreOf(taken, busy, p)
	r.alarm, r.mirrored = againstOf(raw, busy, p)
	return r
}

// busyOf spells out how busy each block is: its denominator over that of the block at four
// fifths of the earlier ones; -1 for the first.
func busyOf(wholes []int64) []float64 {
	list := make([]float64, len(wholes))
	var earlier []int64 // in order
	for i, whole := range wholes {
		list[i] = -1
		if n := len(earlier); n > 0 {
			list[i] = float64(whole) / float64(earlier[(n-1)*4/5])
		}
		at, _ := slices.BinarySearch(earlier, whole)
		earlier = slices.Insert(earlier, at, whole)
	}
	return list
}

// oracleScore is a score without bounds, and whether floating point could follow
// all the way.
type oracleScore struct {
	value   *big.Float
	bounded bool
}

func exact(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }

// weigh is what a block counts for: the first gains nothing and loses once; a busy one gains once and loses more.
func weigh(busy float64, gains bool) float64 {
	if busy < 0 {
		busy = 1
		if gains {
			busy = 0
		}
	}
	if gains && busy > 1 {
		busy = 1
	}
	return busy
}

// scoreOf is the mean over the bets of the products.
func scoreOf(x, busy []float64, p0 float64) oracleScore {
	most := math.Min(5*p0, (1+p0)/2)
	sum, bounded := exact(0), true
	for _, g := range []float64{0.2, 0.5, 0.9} {
		product := exact(1)
		for i, v := range x {
			e := (v - p0) / (most - p0)
			factor := 1 - g*e
			if e > 1 {
				// The tangent of the logarithm at the cap.
				factor = (1 - g) * math.Exp(-g/(1-g)*(e-1))
			}
			factor = math.Pow(factor, weigh(busy[i], e < 0))
			product.Mul(product, exact(factor))
			bounded = bounded && factor > 0 && moderate(product)
		}
		sum.Add(sum, product)
	}
	return oracleScore{sum.Quo(sum, exact(3)), bounded}
}

// againstOf is the same for the other direction: R, and the product.
func againstOf(x, busy []float64, p0 float64) (alarm, mirrored oracleScore) {
	rises, products, bounded := exact(0), exact(0), true
	for _, g := range []float64{0.1, 0.3, 0.6} {
		rise, product := exact(0), exact(1)
		for i, v := range x {
			e := math.Min(20, v/p0) - 1
			w := math.Min(1, math.Max(0, busy[i]))

			// A nearly idle block adds no stake.
			if w >= 0.2 {
				rise.Add(rise, exact(1))
			}
			rise.Mul(rise, exact(1+w*g*e))
			product.Mul(product, exact(math.Pow(1+g*e, weigh(busy[i], e > 0))))
			bounded = bounded && moderate(product) && (rise.Sign() == 0 || moderate(rise))
		}
		rises.Add(rises, rise)
		products.Add(products, product)
	}
	return oracleScore{rises.Quo(rises, exact(3)), bounded}, oracleScore{products.Quo(products, exact(3)), bounded}
}

// moderate reports whether floating point can follow.
func moderate(v *big.Float) bool {
	f, _ := v.Float64()
	return f < 1e290 && f > 1e-290
}

func (o *oracle) judge() string {
	for _, r := range o.ratios {
		if r.judged && (r.alarm.value.Cmp(big.NewFloat(90*24)) >= 0 ||
			r.mirrored.value.Cmp(big.NewFloat(20)) >= 0 && o.time >= day) {
			return gate.Fail
		}
	}
	if o.sufficient() && o.proved() {
		return gate.Pass
	}
	return gate.Wait
}

func (o *oracle) sufficient() bool {
	var total, lastDay evidence.Tally
	for t := o.since; t < o.now; t++ {
		total.Add(o.seen[t].Tally)
		if t >= o.now-day {
			lastDay.Add(o.seen[t].Tally)
		}
	}
	denied := o.e.History.Distinct[evidence.KeysDenied]
	if o.e.Denied != nil {
		denied = 0
		for _, t := range o.e.Denied {
			if t < o.now {
				denied++
			}
		}
	}

	_, denials := fraction(2, total)
	return denials >= o.cfg.MinDenials && denied >= o.cfg.MinDeniedKeys &&
		total[evidence.AgreeAllow] > 0 && total[evidence.AgreeDeny] > 0 && enoughCovered(lastDay) &&
		o.e.Live > 0 && len(o.e.NotWriting) == 0 && len(o.e.OtherFingerprint) == 0
}

// proved: time was seen, and every score is where the step needs it.
func (o *oracle) proved() bool {
	bar, soak := 400.0, 48*time.Hour
	switch percent := o.e.Step.Percent; {
	case percent > 50:
		bar, soak = 1e6, 168*time.Hour
	case percent > 10:
		bar, soak = 1e4, 72*time.Hour
	}
	if o.cfg.Soak > 0 {
		soak = o.cfg.Soak
	}
	for _, r := range o.ratios {
		if r.judged && (r.score.value.Cmp(big.NewFloat(bar)) < 0 || r.alarm.value.Cmp(big.NewFloat(24)) >= 0) {
			return false
		}
	}
	return time.Duration(o.time)*time.Minute >= soak
}

// undecided: floating point had to give up on a score, so it proves nothing.
func (o *oracle) undecided() bool {
	return slices.ContainsFunc(o.ratios[:], func(r oracleRatio) bool { return r.judged && !r.alarm.bounded })
}

// compare lists the differences between the gate and the oracle.
func (o *oracle) compare(g gate.Result) (differences []string) {
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	if g.Verdict != o.verdict && !o.undecided() {
		differ("verdict %s (%s), want %s", g.Verdict, g.Reason, o.verdict)
	}
	if all := g.Met() == len(g.Conditions); (g.Verdict == gate.Pass) != (all && g.Verdict != gate.Fail) {
		differ("verdict %s with %d of %d conditions met", g.Verdict, g.Met(), len(g.Conditions))
	}
	for i, part := range []gate.RatioResult{g.Divergence, g.NewlyDenied, g.NewlyAllowed, g.ExtraLoad} {
		for _, d := range o.ratios[i].compare(part) {
			differ("%s: %s", evidence.AllRatios[i], d)
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
	if !r.judged {
		return differences
	}
	if (g.UpperBound != nil) != (len(r.blocks) > 0) || (g.LowerBound != nil) != (len(r.blocks) > 0) {
		differ("bounds %v, %v of %d blocks", g.LowerBound, g.UpperBound, len(r.blocks))
	}
	if want, _ := r.alarm.value.Float64(); r.alarm.bounded && math.Abs(g.Regression-want) > 1e-9*want {
		differ("regression score %g, want %g of %d blocks", g.Regression, want, len(r.blocks))
	}
	if want, _ := r.score.value.Float64(); r.score.bounded && math.Abs(g.Score-want) > 1e-9*want {
		differ("score %g, want %g of %d blocks", g.Score, want, len(r.blocks))
	}
	if math.IsInf(g.Score, 0) || math.IsNaN(g.Score) {
		differ("score %g", g.Score)
	}
	return differences
}
