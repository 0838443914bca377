package integration

import (
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// groupModels are models of several limits that share a request, by the file of the peer's other models and by path.
var groupModels = map[string]map[string]*algorithms.Group{
	"nginx": {"/zones": groupOf(algorithms.AllOrNothing, algorithms.TokenBucket{},
		algorithms.Limit{Requests: 5, Window: time.Second, Burst: 11},
		algorithms.Limit{Requests: 2, Window: time.Second, Burst: 21})},
	"kong": {"/both": groupOf(algorithms.AllOrNothing, algorithms.FixedWindow{},
		algorithms.Limit{Requests: 5, Window: time.Second},
		algorithms.Limit{Requests: 60, Window: time.Minute})},
	"limitador": {"/both": groupOf(algorithms.AllOrNothing, algorithms.FixedWindowAnchored{},
		algorithms.Limit{Requests: 10, Window: time.Minute},
		algorithms.Limit{Requests: 3, Window: 7 * time.Second})},
	"rack-attack": {"/both": groupOf(algorithms.UntilDenied, algorithms.FixedWindow{},
		algorithms.Limit{Requests: 20, Window: time.Minute},
		algorithms.Limit{Requests: 3, Window: 7 * time.Second})},
}

// groupOf returns a group of limits of one algorithm.
func groupOf(charge algorithms.GroupCharge, a algorithms.Algorithm, limits ...algorithms.Limit) *algorithms.Group {
	g := &algorithms.Group{Charge: charge}
	for i, l := range limits {
		g.Members = append(g.Members, algorithms.Member{Name: fmt.Sprint("limit-", i), Algorithm: a, Limit: l})
	}
	return g
}
