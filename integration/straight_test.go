package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// lineStep is a step that is written into the straight line, with its files besides the prelude.
type lineStep struct {
	algorithm algorithms.Algorithm
	files     []string
}

var lineSteps = []lineStep{
	{algorithms.FixedWindow{}, []string{"window", "fixed_window"}},
	{algorithms.FixedWindowAnchored{}, []string{"window", "fixed_window_anchored"}},
	{algorithms.SlidingWindowCounter{}, []string{"sliding_window_counter"}},
	{algorithms.TokenBucket{}, []string{"bucket", "token_bucket"}},
	{algorithms.GCRA{}, []string{"bucket", "gcra"}},
	{algorithms.LeakyBucket{}, []string{"bucket", "leaky_bucket"}},
}

// An algorithm without a log is in lineSteps, or nothing compares its straight line with pair.lua.
func TestEveryAlgorithmInLineIsCompared(t *testing.T) {
	for _, a := range algorithms.All {
		listed := slices.ContainsFunc(lineSteps, func(s lineStep) bool { return s.algorithm.Name() == a.Name() })
		if keepsLog := algorithms.TraitsOf(a).Shape == algorithms.SlidingLog; listed == keepsLog {
			t.Errorf("%s: keeps a log %v, and is in lineSteps %v: an algorithm without a log belongs into lineSteps, one with a log does not",
				a.Name(), keepsLog, listed)
		}
	}
}

// replies counts the replies of scripts that are one text, and the others.
type replies struct{ packed, others int }

func (*replies) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*replies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *replies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if reply, ok := cmd.(interface{ Val() any }); ok && err == nil {
			if _, packed := reply.Val().(string); packed {
				r.packed++
			} else {
				r.others++
			}
		}
		return err
	}
}

// TestUsualChargesAreStraight holds that no usual charge of two sides without a log is judged by the dear part of its script.
func TestUsualChargesAreStraight(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		pair, client := newPair(t, s.addr)
		var seen replies
		client.AddHook(&seen)
		for _, a := range lineSteps {
			for _, b := range lineSteps {
				for _, at := range []int{-1, 0} {
					c := charge(fmt.Sprint(a.algorithm.Name(), b.algorithm.Name(), at), at, a.algorithm, b.algorithm)
					c.Epoch = uint16(7 * -at)
					for range 12 { // the last ones are denied
						evaluate(t, pair, c)
					}
				}
			}
		}

		if seen.others > 0 || seen.packed != 12*2*len(lineSteps)*len(lineSteps) {
			t.Errorf("%d replies are packed, %d are not, want all packed", seen.packed, seen.others)
		}
	})
}

// TestStraightLineIsPair holds that straight.lua answers and stores what pair.lua does, whatever a record has in it.
func TestStraightLineIsPair(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		pair, client := newPair(t, s.addr)
		var seen replies
		client.AddHook(&seen)
		rng := rand.New(rand.NewPCG(*seed, 1))
		names := map[string]string{}
		for _, a := range lineSteps {
			for _, id := range []string{"a", "b"} {
				c := only(charge("name "+id+a.algorithm.Name(), 0, a.algorithm), algorithms.Authoritative)
				c.Sides[0].ID = id
				names[id+a.algorithm.Name()] = partNameOf(t, pair, client, c)
			}
		}

		for i := range 1500 {
			c := algorithms.Charge{Policy: "p", Key: fmt.Sprint(i), At: time.UnixMicro(1_767_355_200_000_000)}
			for r := range 2 - i%4/3 {
				c.Sides[r] = algorithms.Side{ID: "ab"[r : r+1], Algorithm: lineSteps[rng.IntN(len(lineSteps))].algorithm}
				c.Sides[r].Limit = limitOf(c.Sides[r].Algorithm)
			}

			for range 4 {
				c.At = c.At.Add([]time.Duration{0, time.Millisecond, 7 * time.Second, -time.Second, -time.Hour}[rng.IntN(5)])
				c.Cost = []int64{0, 1, 1, 3, 10, 11}[rng.IntN(6)]
				if rng.IntN(3) == 0 {
					c.Epoch = uint16(rng.IntN(3))
				}
				if rng.IntN(4) == 0 {
					damage(rng, client, pair.RecordKey("p", c.Key), &c)
				}
				compareWithPair(t, client, pair.RecordKey("p", c.Key), &c, names, func() [2]algorithms.Observation {
					return evaluate(t, pair, c)[0]
				})
			}
		}
		if seen.packed < 1000 || seen.others < 1000 {
			t.Errorf("%d replies are packed and %d are not, want many of both", seen.packed, seen.others)
		}
	})
}

// damage writes numbers into a record that no script has written, or changes its length.
func damage(rng *rand.Rand, client redis.UniversalClient, key string, c *algorithms.Charge) {
	ctx := context.Background()
	record, _ := client.Get(ctx, key).Bytes()
	if len(record) < 40 {
		return
	}

	numbers := []float64{math.NaN(), math.Inf(1), -1, 0.5, 3, 1 << 53, 1<<53 + 2, 1<<52 + 1, -float64(c.At.UnixMicro()),
		float64(c.At.UnixMicro() + rng.Int64N(1e10)), float64(int64(c.Epoch)<<37 + rng.Int64N(1<<37))}

	switch rng.IntN(8) {
	case 0:
		record = record[:1+rng.IntN(len(record))]
	case 1:
		record = append(record, record[:len(record)/40*40]...)
	default:
		if word := rng.IntN(len(record) / 8); word%5 > 0 { // the first one of five is a name
			binary.LittleEndian.PutUint64(record[8*word:], math.Float64bits(numbers[rng.IntN(len(numbers))]))
		}
	}
	client.Set(ctx, key, record, time.Hour)
}

// compareWithPair has pair.lua judge a charge of a copy of the record, and compares.
func compareWithPair(t *testing.T, client redis.UniversalClient, key string, c *algorithms.Charge, names map[string]string,
	evaluate func() [2]algorithms.Observation,
) {
	t.Helper()
	ctx := context.Background()
	before, copied := get(t, client, key), key+" copied"
	client.Del(ctx, copied)
	if before != "" {
		client.Set(ctx, copied, before, time.Hour)
	}

	source, args := pairScript(t, c, names)
	want, err := client.Eval(ctx, source, []string{copied}, args...).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	o := evaluate()
	got := []int64{o[0].At.UnixMicro()}
	for r := range o {
		if c.Sides[r].Present() {
			d := o[r].Decision
			retry := d.RetryAfter.Microseconds()
			if d.RetryAfter == algorithms.Never {
				retry = -1
			}
			status := int64(0)
			if d.Allowed {
				status = 1
			}
			got = append(got, status, d.Remaining, retry, d.ResetAfter.Microseconds(), d.Delay.Microseconds())
		}
	}
	if c.Epoch != 0 {
		got = append(got, int64(o[0].Number), o[0].Apart)
	}

	if after := get(t, client, copied); !slices.Equal(got, want) || get(t, client, key) != after {
		t.Fatalf("%+v\nof a record %x\nis judged %d, %x\nby pair.lua %d, %x", c, before, got, get(t, client, key), want, after)
	}
	if gap := client.PTTL(ctx, key).Val() - client.PTTL(ctx, copied).Val(); gap.Abs() > time.Minute {
		t.Errorf("%+v: the times to live are %s apart", c, gap)
	}
}

// pairScript returns pair.lua for the sides of a charge, and its arguments.
func pairScript(t *testing.T, c *algorithms.Charge, names map[string]string) (string, []any) {
	t.Helper()
	files := []string{"prelude"}
	var steps []string
	args := []any{c.At.UnixMicro(), 3_600_000, c.Cost}
	for _, side := range c.Sides {
		for _, this := range lineSteps {
			if side.Algorithm != this.algorithm {
				continue
			}
			terms, err := side.Algorithm.(algorithms.Termed).Terms(side.Limit)
			if err != nil {
				t.Fatal(err)
			}
			files, steps = append(files, this.files...), append(steps, side.Algorithm.Name())
			args = append(args, names[side.ID+side.Algorithm.Name()], terms[0], terms[1], terms[2], terms[3])
		}
	}
	if c.Epoch != 0 {
		args = append(args, int64(algorithms.EpochBase(c.Epoch)))
	}

	var b strings.Builder
	for i, file := range append(files, "pair") {
		if file == "pair" {
			fmt.Fprintf(&b, "local steps, log_keys = {%s}, {0, 0}\n", strings.Join(steps, ", "))
		}
		text, err := os.ReadFile(filepath.Join("..", "lua", file+".lua"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(files[:i], file) {
			b.Write(text)
		}
	}
	return b.String(), args
}
