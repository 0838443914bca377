package lua_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// migratingSlot answers TRYAGAIN to scripts of two keys, as a node does while a slot migrates.
type migratingSlot struct {
	left int // how many more times; negative: always
	sent int // scripts, of any number of keys
}

type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

func (m *migratingSlot) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *migratingSlot) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if m.refuses(cmd) {
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func (m *migratingSlot) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var rest []redis.Cmder
		for _, cmd := range cmds {
			if !m.refuses(cmd) {
				rest = append(rest, cmd)
			}
		}
		return next(ctx, rest)
	}
}

func (m *migratingSlot) refuses(cmd redis.Cmder) bool {
	args := cmd.Args()
	if len(args) < 3 || args[2] == nil {
		return false
	}

	keys, ok := args[2].(int)
	if !ok {
		return false
	}
	m.sent++
	if keys != 2 || m.left == 0 {
		return false
	}
	m.left--
	cmd.SetErr(redisError("TRYAGAIN Multiple keys request during rehashing of slot"))
	return true
}

// While a slot migrates, a log of the side that is not enforced does not fail the enforced
// one. An enforced log waits a few milliseconds for its second key.
func TestMigratingSlot(t *testing.T) {
	window := algorithms.Side{Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 5, Window: time.Hour}}
	log := algorithms.Side{Algorithm: algorithms.SlidingWindowLog{}, Limit: algorithms.Limit{Requests: 5, Window: time.Hour}}
	both := [2]algorithms.Side{window, log}
	refused := algorithms.Failed

	tests := []struct {
		name      string
		sides     [2]algorithms.Side
		enforced  algorithms.Role
		times     int // TRYAGAIN
		enforces  algorithms.Status
		otherSide algorithms.Status
		sent      int
	}{
		{"a log beside", both, algorithms.Authoritative, -1, algorithms.Judged, algorithms.Deferred, 2},
		{"an enforced log, the other side beside", both, algorithms.Candidate, 2, algorithms.Judged, algorithms.Deferred, 3},
		{"a log alone", [2]algorithms.Side{log}, algorithms.Authoritative, 3, algorithms.Judged, algorithms.NotAsked, 4},
		{"a log alone, for long", [2]algorithms.Side{log}, algorithms.Authoritative, -1, refused, algorithms.NotAsked, 4},
		{"no log", [2]algorithms.Side{window}, algorithms.Authoritative, -1, algorithms.Judged, algorithms.NotAsked, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
			defer client.Close()
			pair, err := lua.New(client, lua.Config{Name: "migrating"})
			if err != nil {
				t.Fatal(err)
			}

			// The other check of the pipeline is not sent twice.
			c := algorithms.Check{Policy: "p", Key: "k", Cost: 1, Sides: tt.sides, Enforced: tt.enforced}
			beside := algorithms.Check{Policy: "p", Key: "beside", Cost: 1, Sides: [2]algorithms.Side{window}}
			evaluate(t, pair, beside)
			slot := &migratingSlot{left: tt.times}
			client.AddHook(slot)
			o := evaluate(t, pair, c, beside)

			if got := o[0][tt.enforced].Status; got != tt.enforces {
				t.Errorf("the enforced side is %s, want %s: %v", got, tt.enforces, o[0][tt.enforced].Err)
			}
			if got := o[0][tt.enforced.Other()].Status; got != tt.otherSide {
				t.Errorf("the other side is %s, want %s", got, tt.otherSide)
			}
			if got := o[1][0].Decision.Remaining; got != 3 || slot.sent != 1+tt.sent {
				t.Errorf("the check beside it has %d remaining, want 3; %d scripts were sent, want %d", got, slot.sent, 1+tt.sent)
			}

			var failed *lua.StoreError
			if tt.enforces == refused && (!errors.As(o[0][tt.enforced].Err, &failed) || !failed.Migrating() || !failed.NodeIsWell()) {
				t.Errorf("error %v, want one that says that the slot migrates", o[0][tt.enforced].Err)
			}
		})
	}
}
