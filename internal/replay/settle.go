package replay

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
)

// settlements are those of admitted requests whose answer is still to come, in the order of the answers.
type settlements []algorithms.Settlement

func (s settlements) Len() int           { return len(s) }
func (s settlements) Less(i, j int) bool { return s[i].At.Before(s[j].At) }
func (s settlements) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *settlements) Push(x any)        { *s = append(*s, x.(algorithms.Settlement)) }
func (s *settlements) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

// admits reports whether a request gets an answer of the service: the authoritative is the one to obey.
func admits(o *[2]algorithms.Observation) bool {
	a := &o[algorithms.Authoritative]
	return a.Status == algorithms.Judged && a.Decision.Allowed && !a.Blocked
}
