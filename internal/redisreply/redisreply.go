// Package redisreply says in plain words what a Redis has answered in place of its work, and what follows from that.
package redisreply

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// answered is what a Redis answers in place of its work, in plain words. refuses is set where it answers reads and refuses
// writes: it then looks healthy to a command, and no limit works.
type answered struct {
	kind, words string
	refuses     bool
}

var answers = []answered{
	{"OOM", "OOM: Redis has no memory left (maxmemory)", true},
	{"READONLY", "READONLY: Redis is a replica now", true},
	{"MISCONF", "MISCONF: Redis cannot save its data", true},
	{"NOREPLICAS", "NOREPLICAS: too few replicas are connected to Redis", true},
	{"NOPERM", "NOPERM: the user of Redis lacks a right", true},

	{"NOAUTH", "NOAUTH: Redis asks for a password", false},
	{"WRONGPASS", "WRONGPASS: Redis refuses user and password", false},
	{"LOADING", "LOADING: Redis loads its data", false},
	{"BUSY", "BUSY: a script of Redis runs for too long", false},
	{"MASTERDOWN", "MASTERDOWN: this replica has lost its primary", false},
	{"CLUSTERDOWN", "CLUSTERDOWN: a part of the cluster has no server", false},
	{"TRYAGAIN", "TRYAGAIN: a slot of the cluster moves", false},
	{"WRONGTYPE", "WRONGTYPE: another program has written to a key of this service", false},
	{"max number of clients", "Redis takes no more clients (maxclients)", false},
}

// answerOf returns the index of what a Redis has answered, -1 for any other error.
func answerOf(err error) int {
	var reply interface {
		error
		RedisError()
	}
	if !errors.As(err, &reply) {
		return -1
	}

	// KVRocks, and scripts of Redis 6, write ERR and a place before the kind.
	text := reply.Error()
	return slices.IndexFunc(answers, func(a answered) bool {
		return strings.HasPrefix(text, a.kind) || strings.Contains(text, " "+a.kind+" ") || strings.Contains(text, "-"+a.kind+" ")
	})
}

// RefusesWrites reports whether an error is the answer of a Redis that is there and refuses to write.
func RefusesWrites(err error) bool {
	i := answerOf(err)
	return i >= 0 && answers[i].refuses
}

// RefusesAll reports whether it is one that every client gets from this server: a replica beside the primary, or a user
// without a right, says nothing of the instances.
func RefusesAll(err error) bool { return isOneOf(err, "OOM", "MISCONF", "NOREPLICAS") }

// IsReplica reports whether it is the answer of a replica.
func IsReplica(err error) bool { return isOneOf(err, "READONLY") }

// LacksReplicas reports whether it is the answer of a master that its replicas have left, so that another one may have taken its place.
func LacksReplicas(err error) bool { return isOneOf(err, "NOREPLICAS") }

func isOneOf(err error, kinds ...string) bool {
	i := answerOf(err)
	return i >= 0 && slices.Contains(kinds, answers[i].kind)
}

// Reason says in plain words why a store or a limiter has not answered; "" without an error. It has no text of the error,
// which may name servers and keys.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	if i := answerOf(err); i >= 0 {
		return answers[i].words
	}

	// The number of a system error names no server; every other text may.
	var errno syscall.Errno
	var network net.Error
	switch {
	case errors.As(err, &errno) && !errno.Timeout():
		return errno.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &network) && network.Timeout():
		return "no answer in time (i/o timeout)"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended"
	}
	return "see the log of this instance for the error"
}
