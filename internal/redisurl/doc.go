// Package redisurl reads the URLs by which programs name a Redis: a server, a cluster or a sentinel, with the files for TLS.
// No error shows any text of a URL, because each may be a part of a password.
package redisurl
