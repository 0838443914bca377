package main

import (
	"fmt"
	"slices"

	"github.com/shadowlimit/shadowlimit/policies"
)

// needsOf lists what a program gives to a service that runs the policies, each once, by the fields of shadow.Config. A file
// cannot say whether the program does.
func needsOf(set *policies.Set) (list []string) {
	for _, p := range set.Policies {
		for _, side := range p.Sides {
			list = append(list, needsOfSide(side)...)
		}
	}

	slices.Sort(list)
	return slices.Compact(list)
}

func needsOfSide(side *policies.Side) []string {
	switch {
	case side == nil:
		return nil
	case side.Custom():
		if side.Logged() {
			return []string{"the answers of a log: shadowlimit follow or replay, with --observed"}
		}
		return []string{fmt.Sprintf("the limiter %q, in Config.Limiters", side.Limiter)}
	case side.Store != "":
		return []string{fmt.Sprintf("the store %q, in Config.Stores", side.Store)}
	case side.Sync > 0:
		return []string{"a Redis, in Config.Redis or by --redis"}
	}
	return nil
}
