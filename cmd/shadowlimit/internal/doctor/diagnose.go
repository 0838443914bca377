package doctor

import (
	"cmp"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Diagnose says what the error of a PING means and what to do about it. A problem of "" means
// that Redis was reached.
func Diagnose(err error) (problem, fix string) {
	var reply redis.Error

	switch {
	// A user without the right to PING has reached Redis all the same.
	case err == nil, redis.IsPermissionError(err):
		return "", ""
	case redis.IsAuthError(err):
		return "Redis does not let this user in",
			"put user and password into the URL: redis://USER:PASSWORD@HOST:PORT; " +
				"behind a sentinel those of its servers are &username=USER&password=PASSWORD"

	case errors.As(err, &reply):
		return "Redis answers, but only with an error", cmp.Or(Remedy(err), "look into the log of that server")
	}

	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the host of this Redis has no address", "check the host in --redis, or SHADOWLIMIT_REDIS, and the DNS of this machine"
	case strings.Contains(err.Error(), "redis: can't parse"):
		return "what answers is no Redis", "check the port in --redis, or SHADOWLIMIT_REDIS"
	}

	// An engineer on call copies the address from a runbook: in an outage it is right, and checking it costs minutes.
	return "no answer from Redis",
		"if it answered before, this is the outage and not your address: start that Redis, or check its process, its host and the network; " +
			"what clients get meanwhile: curl -s 'http://INSTANCE/status?format=text'; " +
			"if it never did, check that --redis, or SHADOWLIMIT_REDIS, is its address, and says rediss only where the server speaks TLS"
}

// remedies say what to do about an error that a server answers with.
var remedies = []struct{ reply, remedy string }{
	{"DB index is out of range", "name a smaller database behind the / of the URL: most servers have 0 to 15"},
	{"cluster support disabled", "the server is no cluster: write redis://, not redis+cluster://"},
	{"unknown command 'SENTINEL'", "the server is no sentinel: write redis://, not redis+sentinel://"},
	{"unknown command 'sentinel'", "the server is no sentinel: write redis://, not redis+sentinel://"},
	{"SELECT is not allowed in cluster mode", "a cluster has database 0 alone: leave out the / and what is behind it"},

	// The server may take the same command a little later.
	{"LOADING", "wait until it has loaded its data"},
	{"READONLY", "this server is a replica: the address must be that of the primary, or of the sentinels or nodes that know it"},
	{"MASTERDOWN", "this replica has lost its primary: the address must be that of the primary"},
	{"CLUSTERDOWN", "a part of the cluster has no server: wait for its failover, or look at CLUSTER INFO"},
	{"MISCONF", "Redis cannot save its data and refuses writes until it can: look at the disk and the log of that server"},
	{"NOREPLICAS", "too few replicas are connected to it (min-replicas-to-write): bring them back"},
	{"OOM ", "Redis has no memory left (maxmemory) and refuses writes: raise it, or remove what else is stored there"},
	{"BUSY ", "a script of Redis runs for too long: SCRIPT KILL ends it unless it has written"},

	{"NOPERM", "the user of Redis lacks a right: shadowlimit doctor names those that the product needs"},
	{"WRONGTYPE", "another program has written to a key of this service: remove that key, and give the two programs different names"},
}

// Remedy says what to do about an error that Redis has answered with, "" for any other.
func Remedy(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}

	for _, known := range remedies {
		if strings.Contains(reply.Error(), known.reply) {
			return known.remedy
		}
	}
	return ""
}
