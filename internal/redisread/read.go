// Package redisread reads keys in which another program may have left anything. What is too large for a reader's memory is never sent
// to it: in its place comes an error that names the key.
package redisread

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// mostEntries bounds a hash or a sorted set that is read whole: a service has a thousand instances and policies.
	mostEntries = 100_000
	// mostBytes bounds the replies of one call. A thousand instances with a hundred policies each are 10 MB.
	mostBytes = 64 << 20
)

var (
	//go:embed read.lua
	text   string
	script = redis.NewScript(text)
)

// ErrLarge is the error of a key of which more would have to be read than this package reads.
var ErrLarge = errors.New("too large to be read, so another program has written to it: delete the key")

var errReply = errors.New("a reply that cannot be read")

// Query is a command that reads a key: its name in capitals, the key, and what stands behind the key.
type Query []string

// Reply is what Redis answered to a query, or why that was not read. Where there is nothing, both are nil.
type Reply struct {
	Value any
	Err   error
}

// Text returns the reply as a text, "" where it is none.
func (r Reply) Text() string { s, _ := r.Value.(string); return s }

// List returns the reply as a list, nil where it is none.
func (r Reply) List() []any { l, _ := r.Value.([]any); return l }

// Pairs calls yield for each field of a hash with its value, or for each member of a sorted set with its score.
func (r Reply) Pairs(yield func(string, string) bool) {
	list := r.List()
	for i := 0; i+1 < len(list); i += 2 {
		first, _ := list[i].(string)
		second, _ := list[i+1].(string)
		if !yield(first, second) {
			return
		}
	}
}

// Read sends queries, whose keys are of one slot, as one script. It returns a reply for each, and Redis's time. An error is of
// all of them.
func Read(ctx context.Context, rdb redis.Scripter, queries ...Query) ([]Reply, time.Time, error) {
	keys, args := make([]string, len(queries)), []any{mostEntries, mostBytes}
	for i, q := range queries {
		keys[i] = q[1]
		args = append(args, len(q)-1, q[0])
		for _, arg := range q[2:] {
			args = append(args, arg)
		}
	}

	answer, err := script.Run(ctx, rdb, keys, args...).Slice()
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(answer) != 1+2*len(queries) {
		return nil, time.Time{}, errReply
	}
	clock, _ := answer[0].(string)
	us, err := strconv.ParseInt(clock, 10, 64)
	if err != nil {
		return nil, time.Time{}, errReply
	}
	replies := make([]Reply, len(queries))
	for i := range replies {
		why, _ := answer[1+2*i].(string)
		replies[i] = Reply{answer[2+2*i], refusal(keys[i], why)}
	}
	return replies, time.UnixMicro(us).UTC(), nil
}

// refused is an error of a command inside of the script.
type refused string

func (r refused) Error() string { return string(r) }
func (r refused) RedisError()   {}

func refusal(key, why string) error {
	if why == "" {
		return nil
	}
	if size, large := strings.CutPrefix(why, "LARGE "); large {
		return fmt.Errorf("%s: %s, %w", key, size, ErrLarge)
	}
	return fmt.Errorf("%s: %w", key, refused(why))
}
