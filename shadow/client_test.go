package shadow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// The fleet's instances name the clients that do not suit a limiter, so that status and
// doctor can show them.
func TestInstancesTellOfTheirClients(t *testing.T) {
	addr := miniredis.RunT(t).Addr()
	tuned := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, 400*time.Millisecond))
	untuned := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { tuned.Close(); untuned.Close() })
	tests := []struct {
		why    string
		redis  redis.UniversalClient
		stores map[string]redis.UniversalClient
		want   string // begins each warning; "" for none
	}{
		{"all is well", tuned, map[string]redis.UniversalClient{"other": tuned}, ""},
		{"the service's own client", untuned, nil, "MaxRetries"},
		{"that of a store", tuned, map[string]redis.UniversalClient{"other": untuned}, "store other: MaxRetries"},
	}

	for _, tt := range tests {
		h := open(t, file, shadow.Config{Redis: tt.redis, Stores: tt.stores})
		syncNow(t, h)
		fleet, err := stages.NewRedisStore(tuned, name).Fleet(ctx(t))
		all := fleet.Instances
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %v, %v", tt.why, all, err)
		}

		if got := strings.Join(all[0].Client, "\n"); (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.why, got, tt.want)
		}
		h.Close(ctx(t))
	}
}
