package importer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// finish writes the policy file and reads it again as a service would. A policy that package policies refuses, because its numbers
// or its condition are too large, is left out with that reason: each round leaves out at least one.
func (in *Import) finish() error {
	for len(in.Policies) > 0 {
		text, lines := in.write()
		set, err := policies.Load("the imported file", []byte(text))
		if err == nil {
			in.describe(set)
			in.File, _ = in.write()
			return nil
		}

		var problems *policies.Problems
		if !errors.As(err, &problems) {
			return err
		}
		if err := in.withdraw(problems, lines); err != nil {
			return err
		}
	}

	// Where parts are left out, the list of them says why.
	if len(in.LeftOut) == 0 {
		return fmt.Errorf("the configuration limits nothing, so %w", ErrNothing)
	}
	return ErrNothing
}

// withdraw takes the policies with problems back.
func (in *Import) withdraw(problems *policies.Problems, lines []int) error {
	refused := map[int]bool{}
	for _, problem := range problems.List {
		if problem.Severity != policies.SeverityError {
			continue
		}

		// A problem belongs to the last policy that begins before it; one before all policies is in what they share.
		i, exact := slices.BinarySearch(lines, problem.Line)
		if !exact {
			i--
		}
		if i < 0 {
			return &Error{Place{in.Files[0], 1}, fmt.Sprintf("the policy file would be refused: %s", problem.Message)}
		}
		if p := in.Policies[i]; !refused[i] {
			in.leave(p.Place, p.Origin, "no policy can have it: %s", shown(problem.Message))
		}
		refused[i] = true
	}

	if len(refused) == 0 {
		return &Error{Place{in.Files[0], 1}, "the policy file would be refused: " + problems.Error()}
	}
	var kept []Policy
	for i, p := range in.Policies {
		if !refused[i] {
			kept = append(kept, p)
		}
	}
	in.Policies = kept
	in.alone()
	return nil
}

// describe notes the sides in the short form, as the other commands show them.
func (in *Import) describe(set *policies.Set) {
	text := map[string]string{}
	for _, p := range set.Policies {
		for _, single := range append(p.Members, p) {
			text[single.Name] = single.Sides[algorithms.Authoritative].String()
		}
	}
	for i, p := range in.Policies {
		in.Policies[i].Authoritative = text[p.Name]
	}
}
