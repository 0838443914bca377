package lua

import (
	"fmt"
	"maps"
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
	all := maps.Clone(steps)
	maps.Copy(all, optional)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return !inLine(name) })
	if len(names) < 9 {
		t.Errorf("%v can stand in the places of their calls, want all without a log or options", names)
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
