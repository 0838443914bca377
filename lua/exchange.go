package lua

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Exchange is one synchronization of a process with the fleet: the changes of its keys, under a number that the process
// gives to no other one.
type Exchange struct {
	// Process names the process among all that ever exchange with the store.
	Process string
	// Number is above 0 and grows.
	Number  int64
	Changes []algorithms.Change
}

// noteLives is how long Redis knows which exchange of a process was the last: longer than any outage after which the
// process sends it again.
const noteLives = 7 * 24 * time.Hour

// shapes are the shapes as the script has them.
var shapes = map[algorithms.Shape]int{
	algorithms.AlignedWindow: 1, algorithms.AnchoredWindow: 2, algorithms.SlidingCounter: 3, algorithms.Bucket: 4,
}

// errExchange is returned for a reply that does not belong to the exchange.
var errExchange = errors.New("lua: exchange: unexpected reply")

// The script of an exchange, and its hash.
var (
	exchangeSource = sourceOf("exchange")
	exchangeSHA1   = redis.NewScript(exchangeSource).Hash()
)

// runExchange sends the script by its hash, and once more with the text to a server that does not know it.
func runExchange(ctx context.Context, rdb redis.UniversalClient, keys []string, args []any) ([]any, error) {
	// The first two places are those of the command's name and of its script.
	all := append(make([]any, 0, 3+len(keys)+len(args)), nil, nil, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}

	c := call{args: append(all, args...)}
	c.cmd = c.command(ctx, "evalsha", exchangeSHA1)
	_ = rdb.Process(ctx, c.cmd)
	if err := c.cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		c.cmd = c.command(ctx, "eval", exchangeSource)
		_ = rdb.Process(ctx, c.cmd)
	}
	return c.cmd.Slice()
}

// argument returns what the script is told of one change.
func (x *Exchange) argument(c *algorithms.Change) string {
	base := "-"
	if c.Base != 0 {
		base = x.Process + "." + strconv.FormatInt(c.Base, 10)
	}

	// Redis counts the life of the record in milliseconds, by its own clock.
	e := c.Exchanged()
	life := c.Lifetime()/1000 + exchangedLives.Milliseconds()
	fields := append(make([]byte, 0, 200), base...)
	for _, n := range [...]int64{
		c.State.Last, c.State.Used, c.State.Aux, int64(shapes[algorithms.TraitsOf(c.Side.Algorithm).Shape]), life,
		e.Spent, e.Before, e.First, e.Last, e.Own, e.Window, e.Capacity, e.Token, e.Drain,
	} {
		fields = strconv.AppendInt(append(fields, ' '), n, 10)
	}
	return string(fields)
}

// exchangedLives is how much longer than its state a record lives: clocks differ.
const exchangedLives = 10 * time.Second

// parseJoint reads one value of the reply.
func parseJoint(text string) (algorithms.Joint, error) {
	if text == "" {
		return algorithms.Joint{Ours: true}, nil
	}

	fields := strings.Fields(text)
	if len(fields) != 3 {
		return algorithms.Joint{}, errExchange
	}
	var n [3]int64
	for i := range fields {
		var err error
		if n[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil || n[i] > maxCost || n[i] < -maxCost {
			return algorithms.Joint{}, errExchange
		}
	}
	return algorithms.Joint{State: algorithms.State{Last: n[0], Used: max(0, n[1]), Aux: n[2]}}, nil
}
