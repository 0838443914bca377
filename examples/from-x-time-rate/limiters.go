package main

import (
	"sync"

	"golang.org/x/time/rate"
)

// limiters is what the service had: a limiter for each client, a token a second and
// ten at once.
type limiters struct {
	mu       sync.Mutex
	byClient map[string]*rate.Limiter
}

func (l *limiters) of(client string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.byClient == nil {
		l.byClient = map[string]*rate.Limiter{}
	}
	if l.byClient[client] == nil {
		l.byClient[client] = rate.NewLimiter(1, 10)
	}

	return l.byClient[client]
}
