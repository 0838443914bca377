package lua

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestInline(t *testing.T) {
	const files = `
local function double(a) return a * 2 end -- one line
local function both(a, b, c)
  -- a keeps its value, b does not
  local sum = a + b
  if sum > 9 then b = 0 end

  return sum, double(b), a, c
end
local function outer(x)
  local sum, twice, same, none = both(x, 1)
  local b = 7
  return sum + b, twice, same, none
end
local function early(a)
  if a then return 1 end
  return 2
end
`
	tests := map[string]struct{ text, want string }{
		"a line without calls": {"local a = b.double(1) -- as it is", "local a = b.double(1)\n"},
		"an expression":        {"if double(x - 1) > double(double(y)) then", "if ((x - 1) * 2) > (((y * 2)) * 2) then\n"},
		"a target is another name": {
			"local s, d, a = both(x, y)\nprint(s, d, a)",
			"local b__1 = y\n  local sum__1 = x + b__1\n  if sum__1 > 9 then b__1 = 0 end\nlocal d = (b__1 * 2)\nprint(sum__1, d, x)\n",
		},
		"a target is a copy, as it or its result changes": {
			"local s, d, a =\n  both(x, 5)\ns, x = s + 1, 0",
			"local b__1 = 5\n  local sum__1 = x + b__1\n  if sum__1 > 9 then b__1 = 0 end\n" +
				"local s = sum__1\nlocal d = (b__1 * 2)\nlocal a = x\ns, x = s + 1, 0\n",
		},
		"a call in a body": {
			"local p, q, r, s = outer(v)",
			"local b__2 = 1\n  local sum__2 = v + b__2\n  if sum__2 > 9 then b__2 = 0 end\n" +
				"local twice__1 = (b__2 * 2)\n  local b__1 = 7\nlocal p = sum__2 + b__1\n",
		},
	}

	for name, test := range tests {
		if got := libraryOf(files).inline(test.text); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, test.want)
		}
	}

	for _, text := range []string{"local a = early(1)", "print(both(1, 2))", "local a = 1 + both(2, 3)"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q has a call that is left, want a panic", text)
				}
			}()
			libraryOf(files).inline(text)
		}()
	}
}

// TestStraightScriptsMakeNoFunctions holds what makes them cheap. A name that is left would be one of a function that is
// defined behind the straight part.
func TestStraightScriptsMakeNoFunctions(t *testing.T) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(steps)), func(name string) bool { return !inLine(name) })
	if len(names) < 6 {
		t.Errorf("%v can stand in the places of their calls, want all without a log", names)
	}

	for _, first := range names {
		for _, second := range append(names, "") {
			for _, form := range []form{straight, straightNumbered} {
				source := text(sequence{[2]string{first, second}, form})
				line, library, found := strings.Cut(source, "\nlocal packed, ARGV")
				if !found || strings.Contains(line, "function") {
					t.Errorf("%s %s: a function in the straight part:\n%s", first, second, line)
				}
				for name := range libraryOf(library) {
					if strings.Contains(fmt.Sprintf(" %s", line), " "+name+"(") {
						t.Errorf("%s %s: a call of %s is left", first, second, name)
					}
				}
			}
		}
	}
}

var (
	borders = regexp.MustCompile(`;|\b(?:then|else|do|end)\b`) // between two statements of a line
	joined  = regexp.MustCompile(`^\s*(\w+(?:, \w+)+) = (.*)$`)
)

// readsAssigned returns a name that an assignment of the line reads for the new value of another name, "" for none. New locals
// have no new value yet, and the arguments of a call that is the only expression are read before all.
func readsAssigned(line string) string {
	for _, statement := range borders.Split(line, -1) {
		m := joined.FindStringSubmatch(statement)
		if m == nil || len(argumentsOf(m[2])) == 1 {
			continue
		}

		targets := argumentsOf(m[1])
		for i, expression := range argumentsOf(m[2]) {
			for _, at := range word.FindAllStringIndex(expression, -1) {
				target := slices.Index(targets, expression[at[0]:at[1]])
				if target >= 0 && target != i && !strings.HasSuffix(expression[:at[0]], ".") {
					return targets[target]
				}
			}
		}
	}
	return ""
}

// Miniredis evaluates `a, b, c = x, y, a + 1` after it has assigned a, and Redis before: a script that is right here would be
// wrong there, or the other way round.
func TestAssignmentsReadNoNewValues(t *testing.T) {
	for line, want := range map[string]string{
		"a, b, c = 10, 20, a + 1":                 "a",
		"  if x then a, b = b, a end":             "b",
		"if x then a = 1 else a, b = 1, f(a) end": "a",
		"a, b = x, 1; c, d = e, c":                "c",
		"a, b, c = 0, f(b)":                       "",
		"a, b, c = 0, f(c)":                       "c",
		"t = {a, b = b, c = a}":                   "",
		"a, b, c = a + 1, f(b), c.a - c":          "",
		"a, b, c = f(b, a)":                       "",
		"local a, b = b, a":                       "",
		"if a then b, c = d, 0 else c = a end":    "",
		"a, b = x, 1 -- a":                        "",
	} {
		for _, line := range linesOf(line) {
			if got := readsAssigned(line); got != want {
				t.Errorf("%q: reads the assigned name %q, want %q", line, got, want)
			}
		}
	}

	files, err := fs.Glob(sources, "*.lua")
	if err != nil || len(files) < 10 {
		t.Fatalf("the files %v, error %v: this test does not see all", files, err)
	}
	for _, file := range files {
		for _, line := range linesOf(broken.ReplaceAllString(sourceOf(strings.TrimSuffix(file, ".lua")), "= ")) {
			if name := readsAssigned(line); name != "" {
				t.Errorf("%s: %q assigns %s and reads it: miniredis's Lua reads the new value; assign one after the other, or to new locals",
					file, strings.TrimSpace(line), name)
			}
		}
	}
}
