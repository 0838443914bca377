package doctor

import (
	"errors"

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
		return "Redis answers, but only with an error",
			"wait until it has loaded its data, or check its replication and cluster"
	}

	return "no answer from Redis",
		"check that --redis, or SHADOWLIMIT_REDIS, is its address, and says rediss only where the server speaks TLS"
}
