package lua

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// library has the functions of Lua files by their names, so that inline can write them in the places of their calls. A
// function is either one line that returns an expression, called anywhere, or has one return, its last line, and is
// called only as `local results = name(arguments)`. No other name or text of the files may look like a call of it.
type library map[string]*function

type function struct {
	params  []string
	body    []string // without the return
	results []string // the expressions that it returns
	oneLine bool
}

var (
	oneLine   = regexp.MustCompile(`^local function (\w+)\(([\w, ]*)\) return (.*) end$`)
	firstLine = regexp.MustCompile(`^local function (\w+)\(([\w, .]*)\)$`)
	callLine  = regexp.MustCompile(`^\s*local ([\w, ]+) = (\w+)\((.*)\)$`)
	locals    = regexp.MustCompile(`\blocal ([\w, ]+?)(?: =|$)`)
	broken    = regexp.MustCompile(`=\n\s+`) // the right side of an assignment is on the next line
	targets   = regexp.MustCompile(`(\w+(?:, \w+)*) =[^=]`)
	returns   = regexp.MustCompile(`\breturn\b`)
	word      = regexp.MustCompile(`\w+`)
)

// libraryOf returns the functions of a text. They begin and end at the beginning of a line.
func libraryOf(text string) library {
	// A file has functions and nothing else, so a text of several files is read as one.
	all := library{}
	lines := linesOf(text)
	for i, line := range lines {
		if m := oneLine.FindStringSubmatch(line); m != nil {
			all[m[1]] = &function{params: argumentsOf(m[2]), results: argumentsOf(m[3]), oneLine: true}
		}

		if m := firstLine.FindStringSubmatch(line); m != nil {
			// A function that returns anywhere else than in its last line has no results here. It may be defined,
			// and is refused where it is called.
			f := &function{params: argumentsOf(m[2])}
			f.body = lines[i+1 : i+slices.Index(lines[i:], "end")]
			last := len(f.body) - 1
			results, ok := strings.CutPrefix(f.body[last], "  return ")
			if ok && !slices.ContainsFunc(f.body[:last], returns.MatchString) {
				f.body, f.results = f.body[:last], argumentsOf(results)
			}
			all[m[1]] = f
		}
	}
	return all
}

// linesOf returns the lines of a text without comments and empty lines.
func linesOf(text string) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		line, _, _ = strings.Cut(line, "--")
		if line = strings.TrimRight(line, " "); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// inline returns a text with the functions of the library in the places of their calls. Of
//
//	local function half(x) return x / 2 end
//	local function reduced(x)
//	  if x > 9 then x = 9 end
//	  return x
//	end
//
// the line `local y = reduced(half(z) + 1)` becomes
//
//	local x__1 = (z / 2) + 1
//	  if x__1 > 9 then x__1 = 9 end
//	local y = x__1
//
// The last of these lines is left out where neither y nor x__1 gets another value later: x__1 then stands in the place of y.
func (l library) inline(text string) string {
	in := inliner{library: l}
	in.lines(linesOf(broken.ReplaceAllString(text, "= ")))
	return in.out.String()
}

// inliner writes a text.
type inliner struct {
	library
	out   strings.Builder
	calls int // whose bodies it has written
}

// write adds a line to the text.
func (in *inliner) write(line string) { in.out.WriteString(line + "\n") }

// names are other names of variables.
type names map[string]string

// lines writes lines, or the bodies of what they call. It returns what stands for the targets of calls.
func (in *inliner) lines(lines []string) names {
	// The names of others hold for the lines behind the call, up to the end of this function.
	others := names{}
	for i, line := range lines {
		m := callLine.FindStringSubmatch(line)
		if m == nil || in.library[m[2]] == nil || in.library[m[2]].oneLine {
			in.write(in.expand(others.rename(line)))
			continue
		}

		// A target that keeps its value is another name for a result that keeps its value, too.
		results := in.call(m[2], argumentsOf(others.rename(m[3])))
		for j, target := range argumentsOf(m[1]) {
			if isWord(results[j]) && !assigned(lines[i+1:], target) && !assigned(lines[i+1:], results[j]) {
				others[target] = results[j]
				continue
			}
			in.write("local " + target + " = " + results[j])
		}
	}
	return others
}

// call writes the body of a function, and returns its results. The variables of the body get names that no other call
// has, so that the lines behind it may use them.
func (in *inliner) call(name string, args []string) []string {
	f := in.library[name]
	if f.results == nil {
		panic("lua: " + name + " cannot stand in the place of its call: only its last line may return")
	}

	// A second call of the function, or another function with a variable of that name, must not meet this one's.
	in.calls++
	own := func(name string) string { return fmt.Sprintf("%s__%d", name, in.calls) }
	inner := names{}
	for _, line := range f.body {
		for _, m := range locals.FindAllStringSubmatch(line, -1) {
			for _, name := range argumentsOf(m[1]) {
				inner[name] = own(name)
			}
		}
	}

	// A parameter is another name for a variable that keeps its value. One without an argument is nil.
	for i, p := range f.params {
		arg := "nil"
		if i < len(args) {
			arg = in.expand(args[i])
		}
		inner[p] = arg
		if !isWord(arg) || assigned(f.body, p) {
			inner[p] = own(p)
			in.write("local " + own(p) + " = " + arg)
		}
	}

	// The body may have calls itself, and its results may be those of a call.
	body := make([]string, len(f.body))
	for i, line := range f.body {
		body[i] = inner.rename(line)
	}
	others := in.lines(body)

	results := make([]string, len(f.results))
	for i, result := range f.results {
		results[i] = in.expand(others.rename(inner.rename(result)))
	}
	return results
}

// expand returns a line with expressions in the places of calls.
func (in *inliner) expand(line string) string {
	// The first call is replaced, and then the line is read again: an argument may be a call, and so may the result.
	for _, at := range word.FindAllStringIndex(line, -1) {
		name, rest := line[at[0]:at[1]], line[at[1]:]
		f := in.library[name]
		if f == nil || !strings.HasPrefix(rest, "(") || strings.HasSuffix(line[:at[0]], ".") {
			continue
		}
		if !f.oneLine {
			panic("lua: a call of " + name + " must be a line of its own: " + line)
		}

		// Parentheses keep the order of evaluation, around each argument and around the whole.
		end := closing(rest)
		params := names{}
		for i, arg := range argumentsOf(rest[1:end]) {
			if !isWord(arg) {
				arg = "(" + arg + ")"
			}
			params[f.params[i]] = arg
		}
		return in.expand(line[:at[0]] + "(" + params.rename(f.results[0]) + ")" + rest[end+1:])
	}
	return line
}

// rename returns a line with the other names. A word behind a dot is no variable.
func (n names) rename(line string) string {
	// All words at once: a new name that is also an old one must not be renamed again.
	var b strings.Builder
	done := 0
	for _, at := range word.FindAllStringIndex(line, -1) {
		other, ok := n[line[at[0]:at[1]]]
		if ok && !strings.HasSuffix(line[:at[0]], ".") {
			b.WriteString(line[done:at[0]] + other)
			done = at[1]
		}
	}
	return b.String() + line[done:]
}

// assigned reports whether a line gives a variable a value.
func assigned(lines []string, name string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, name) && slices.ContainsFunc(targets.FindAllStringSubmatch(line, -1), func(m []string) bool {
			return slices.Contains(argumentsOf(m[1]), name)
		})
	})
}

// isWord reports whether an expression is a variable or a number.
func isWord(expression string) bool { return word.FindString(expression) == expression }

// closing returns the index of the parenthesis that closes the first one.
func closing(text string) int {
	// The text begins with the parenthesis that is to be closed.
	depth := 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return i
		}
	}
	panic("lua: no closing parenthesis: " + text)
}

// argumentsOf splits a list at its commas.
func argumentsOf(list string) (args []string) {
	// A comma within parentheses belongs to a call.
	depth, start := 0, 0
	for i, c := range list {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				args = append(args, strings.TrimSpace(list[start:i]))
				start = i + 1
			}
		}
	}

	// The last one has no comma behind it.
	return append(args, strings.TrimSpace(list[start:]))
}
