package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/shadowlimit/shadowlimit/policies"
)

// refusals count, for a policy that charges no request, which part of its condition is false for how many. The first check ends
// the count.
type refusals struct {
	parts      []policies.Part
	asked      int64
	falsehoods []int64 // of each part
}

// maxAsked bounds the requests that are asked: each costs another evaluation of the condition.
const maxAsked = 100_000

func newRefusals(p *policies.Policy) *refusals {
	parts := p.Parts()
	return &refusals{parts: parts, falsehoods: make([]int64, len(parts))}
}

func (r *refusals) count(ctx context.Context, request *policies.Request) {
	if r.asked == maxAsked {
		return
	}
	r.asked++
	for i := range r.parts {
		if !r.parts[i].Holds(ctx, request) {
			r.falsehoods[i]++
		}
	}
}

// String says which part is false for how many requests; "" without any.
func (r *refusals) String() string {
	if r == nil || r.asked == 0 {
		return ""
	}

	var list []string
	for i, part := range r.parts {
		if r.falsehoods[i] > 0 {
			list = append(list, fmt.Sprintf("%s is false for %d", part.Text, r.falsehoods[i]))
		}
	}
	of := fmt.Sprintf("of %d", r.asked)
	if r.asked == maxAsked {
		of = fmt.Sprintf("of the first %d", r.asked)
	}
	return of + ": " + strings.Join(list, "; ")
}
