package main

import (
	"sync"

	"golang.org/x/time/rate"
)

// limiters is the old limiter of the service: one rate.Limiter for each client, with
// one token a second and ten at once.
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
