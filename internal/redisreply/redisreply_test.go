package redisreply_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"syscall"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/redisreply"
)

// reply is an error of a server, as its client returns it.
type reply string

func (r reply) Error() string { return string(r) }

func (reply) RedisError() {}

// An error may name servers and keys, so a page shows its kind alone. A server that refuses writes looks healthy to readers.
func TestReasonNamesNoServer(t *testing.T) {
	const log, late, oom = "log of this instance", "no answer in time", "^OOM: "
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

	tests := []struct {
		err     error
		want    string
		refuses bool
	}{
		{nil, "", false},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), oom, true},
		{reply("ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed"), oom, true},
		{errors.Join(nil, fmt.Errorf("stages: heartbeat: %w", reply("READONLY You can't write against a read only replica."))),
			"^READONLY: ", true},
		{reply("NOPERM this user has no permissions"), "^NOPERM: ", true},

		{reply("LOADING Redis is loading the dataset in memory"), "^LOADING: ", false},
		{reply("ERR max number of clients reached"), "maxclients", false},
		{reply("ERR at 10.0.0.1"), log, false},

		{fmt.Errorf("redis.internal: %w", refused), "connection refused", false},
		{fmt.Errorf("10.0.0.1: %w", os.ErrDeadlineExceeded), late, false},
		{context.DeadlineExceeded, late, false},
		{fmt.Errorf("10.0.0.1: %w", io.EOF), "connection ended", false},
		{errors.New("10.0.0.1"), log, false},
	}

	for _, tt := range tests {
		got := redisreply.Reason(tt.err)
		if !matches(got, tt.want) || matches(got, "10.0|redis.internal") || redisreply.RefusesWrites(tt.err) != tt.refuses {
			t.Errorf("%v: %q, refuses writes: %t; want %q", tt.err, got, redisreply.RefusesWrites(tt.err), tt.want)
		}
	}
}

func matches(text, pattern string) bool {
	return (text == "") == (pattern == "") && regexp.MustCompile(pattern).MatchString(text)
}
