package doctor

import (
	"errors"
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

	case errors.As(err, &reply) && remedyOf(reply.Error()) != "":
		return "Redis answers, but only with an error", remedyOf(reply.Error())
	case errors.As(err, &reply):
		return "Redis answers, but only with an error",
			"wait until it has loaded its data, or check its replication and cluster"
	}

	return "no answer from Redis",
		"check that --redis, or SHADOWLIMIT_REDIS, is its address, and says rediss only where the server speaks TLS"
}

// remedies say what is wrong with an address whose server answers with an error.
var remedies = []struct{ reply, remedy string }{
	{"DB index is out of range", "name a smaller database behind the / of the URL: most servers have 0 to 15"},
	{"cluster support disabled", "the server is no cluster: write redis://, not redis+cluster://"},
	{"unknown command 'SENTINEL'", "the server is no sentinel: write redis://, not redis+sentinel://"},
	{"unknown command 'sentinel'", "the server is no sentinel: write redis://, not redis+sentinel://"},
	{"SELECT is not allowed in cluster mode", "a cluster has database 0 alone: leave out the / and what is behind it"},
}

// remedyOf returns the remedy of a reply, "" for others.
func remedyOf(reply string) string {
	for _, known := range remedies {
		if strings.Contains(reply, known.reply) {
			return known.remedy
		}
	}
	return ""
}
