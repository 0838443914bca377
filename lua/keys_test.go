package lua_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// TestRecordKeysKeepTheirBytes holds the Redis keys: with others, every client would start
// with a full budget. Do not change the expected values without algorithms.Format.
func TestRecordKeysKeepTheirBytes(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()

	pairWith := func(secret string) *lua.Pair {
		pair, err := lua.New(client, lua.Config{Name: "test", Secret: []byte(secret)})
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	clear, secret := pairWith(""), pairWith("secret")

	long := strings.Repeat("k", 257)
	tests := []struct {
		pair      *lua.Pair
		key, want string
	}{
		{clear, "a}b{", "shadowlimit1:{test:p:a}b{}"},
		{clear, long, "shadowlimit1:{test:p:#a5de0e3c93b4322bf1d2e6cc13119219d665142374de7f2b06bae237759c73e2}"},
		{clear, algorithms.BoundedKey(long), "shadowlimit1:{test:p:#495bfb211256970247644cc36feffea4628631da5f4291121fe830706a89e499}"},
		{secret, "a}b{", "shadowlimit1:{test:p:#e529c341fc7efd1d61ddeda60eb6ebc6}"},
		{secret, long, "shadowlimit1:{test:p:#390941396714bb6d3208c33ffc30f0d0}"},
		{secret, algorithms.BoundedKey(long), "shadowlimit1:{test:p:#acf3ac09feae9da9a86e884d04938f4e}"},
	}
	for _, tt := range tests {
		if got := tt.pair.RecordKey("p", tt.key); got != tt.want {
			t.Errorf("the record of %.10q is at %q, want %q", tt.key, got, tt.want)
		}
	}

	// A side's state has the hash of its id and algorithm for a name.
	const wantLog = "shadowlimit1:{test:p:key}:log:vrnmmtyz"
	if got := clear.LogKey("p", "key", "sliding_window_log"); got != wantLog {
		t.Errorf("the log is at %q, want %q", got, wantLog)
	}
}
