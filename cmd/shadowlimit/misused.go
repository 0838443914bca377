package main

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

var (
	wrongValue = regexp.MustCompile(`^invalid (?:boolean )?value "(.*)" for (?:flag )?-?([a-z-]+): `)
	noValue    = regexp.MustCompile(`^flag needs an argument: -([a-z-]+)$`)
)

// misusedFlag words the library's error of a flag's value for an operator.
func misusedFlag(c *cli.Context, message string) string {
	if m := noValue.FindStringSubmatch(message); m != nil {
		return dashed(m[1]) + " needs a value"
	}
	m := wrongValue.FindStringSubmatch(message)
	if m == nil {
		return message
	}

	want := "another value"
	for _, flag := range slices.Concat(c.Command.Flags, c.App.Flags) {
		if slices.Contains(flag.Names(), m[2]) {
			want = valueOf(flag)
		}
	}
	return fmt.Sprintf("%s %s: want %s", dashed(m[2]), humanize.Printable(m[1]), want)
}

// dashed is a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func valueOf(flag cli.Flag) string {
	switch flag.(type) {
	case *cli.DurationFlag:
		return "a time such as 30s or 1h"
	case *cli.BoolFlag:
		return "no value, or true or false behind ="
	}
	return "another value"
}
