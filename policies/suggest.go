package policies

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']+)'`)
	dottedName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*`)
)

// remedies say what to write, by a message of CEL that does not.
var remedies = map[string]string{
	"invalid argument to has() macro": ": it asks for an entry behind a dot, such as has(request.headers.accept); " +
		`with a dash, "x-plan" in request.headers`,
	"comprehension exceeds nesting limit":     ": at most one loop inside a loop",
	"reserved identifier: if":                 ": a choice is condition ? one : other",
	"expected type 'bool' but found 'string'": `: compare each of several texts, or write request.method in ["POST", "PUT"]`,
}

// explainIssue words an error of CEL for the author of a file, and suggests a name. CEL
// itself knows only the part of a dotted name up to the first dot.
func explainIssue(env *cel.Env, source string, issue *common.Error) string {
	// Each kind of message has its own words. A message that is none of them is CEL's, without a container, which files do not have.
	m := undeclared.FindStringSubmatch(issue.Message)
	rest := lineFrom(source, issue.Location)
	words := cmp.Or(meantMessage(issue.Message, rest), overloadOf(issue.Message))

	switch {
	case strings.HasPrefix(issue.Message, syntaxError):
		return syntaxOf(issue.Message)
	case inAddress.MatchString(rest):
		return fmt.Sprintf("in takes a list or a table behind it: write cidr(%s).containsIP(request.ip)", inAddress.FindStringSubmatch(rest)[1])
	case words != "":
		return words
	case m != nil && strings.HasPrefix(rest, "("):
		return unknownFunction(env, m[1])
	case issue.Message == "invalid matches argument":
		return wrongPattern(textAt(source, issue.Location))
	case fieldOfText.MatchString(issue.Message):
		return noField(nameFrom(source, issue.Location))
	case m == nil:
		return strings.TrimSuffix(issue.Message, " (in container '')") + remedies[issue.Message]
	}
	return explainUndeclared(env, source, nameAt(source, issue.Location, m[1]))
}

// withEntries are the fields of a request that have entries.
var withEntries = []string{"request.headers", "request.query", "request.claims", "request.descriptors"}

// explainUndeclared says what may be meant by a name that is not declared, a dotted one as a whole.
func explainUndeclared(env *cel.Env, source, name string) string {
	// A dotted name can only be one of the variables: functions have no dots. What follows a variable may be a field or a
	// function of it.
	variables := variablesOf(env)
	name = upToField(name, variables)

	// A place that the request decided would change from one request of a key to the next.
	ofRequest, asked := strings.CutPrefix(name, "request.")
	if asked && slices.Contains(variables, statusName) {
		return fmt.Sprintf("there is no %s: the expression sees the response alone: write response.%s", name, ofRequest)
	}
	if asked && !slices.ContainsFunc(variables, isRequestName) {
		return fmt.Sprintf("there is no %s: a key's place does not depend on the request: use key[0], a part of the key, or data", name)
	}
	if slices.Contains(withEntries, name) {
		return fmt.Sprintf("has() asks for an entry, such as has(request.headers.accept): write size(%s) > 0", name)
	}
	if slices.Contains(variables, name) {
		return fmt.Sprintf("has() asks for an entry, such as has(request.headers.accept): write %s != \"\"", name)
	}
	if word, field, dotted := strings.Cut(name, "."); dotted {
		if slices.Contains(variables, "request."+field) {
			return fmt.Sprintf("there is no %s: did you mean request.%s?", name, field)
		}
		alike := slices.DeleteFunc(slices.Clone(variables), func(v string) bool { return !strings.HasPrefix(v, word+".") })
		if word == "variables" && len(alike) == 0 && slices.ContainsFunc(variables, isRequestName) {
			return fmt.Sprintf("there is no %s", name)
		}
		if word == "data" && len(alike) == 0 {
			return fmt.Sprintf("there is no %s: write the table into a section data of the file", name)
		}
		if len(alike) == 0 {
			alike = variables
		}
		return unknownName(name, variables, alike)
	}

	// The field of a request without "request.", or a text that lost its quotes to YAML:
	// both are further from their correction than a few edits.
	for _, v := range variables {
		if strings.HasSuffix(v, "."+name) {
			return fmt.Sprintf("there is no %s: did you mean %s?", name, v)
		}
	}
	if name == strings.TrimSpace(source) {
		return fmt.Sprintf("there is no %s: if it is a text, quote it within the quotes of YAML: '\"%s\"'; the names are %s",
			name, name, strings.Join(variables, ", "))
	}
	known := append(functionsOf(env), variables...)
	if humanize.Nearest(name, known) == "" {
		return fmt.Sprintf("there is no %s: a text needs quotes, %q; the names are %s", name, name, strings.Join(variables, ", "))
	}
	return unknownName(name, known, variables)
}

// fieldOfText is CEL's message of a field of a value that has none.
var fieldOfText = regexp.MustCompile(`^type '.*' does not support field selection`)

// nameFrom is the field behind the dot at a place of an expression.
func nameFrom(source string, at common.Location) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(dottedName.FindString(strings.TrimPrefix(lineFrom(source, at), ".")), "."), ".")
	return name
}

// partsOfTime are the parts of an instant as other languages name them.
var partsOfTime = map[string]string{
	"hour": "getHours()", "hours": "getHours()", "minute": "getMinutes()", "minutes": "getMinutes()", "day": "getDate()",
	"weekday": "getDayOfWeek()", "month": "getMonth()", "year": "getFullYear()",
}

// noField words the mistake of a field of a text, a number or an instant.
func noField(name string) string {
	if part := partsOfTime[name]; part != "" {
		return fmt.Sprintf("there is no field %s: write request.time.%s", name, part)
	}
	return fmt.Sprintf("there is no field %s: a text, a number and a time have functions and no fields", name)
}

// otherFunctions are functions of other languages, as CEL writes them.
var otherFunctions = map[string]string{
	// Texts, in Python, JavaScript, SQL and Go.
	"lower": "lowerAscii()", "toLowerCase": "lowerAscii()", "upper": "upperAscii()", "toUpperCase": "upperAscii()",
	"len": "size(...)", "length": "size(...)", "strip": "trim()", "str": "string(...)",

	// What a request has as a field, or a network as a function.
	"now":    "request.time",
	"inCidr": cidrForm, "in_cidr": cidrForm, "inRange": cidrForm, "header": `request.headers[?"x-plan"].orValue("none")`,
}

// cidrForm is how an expression asks whether an address belongs to a network.
const cidrForm = `cidr("10.0.0.0/8").containsIP(request.ip)`

// inAddress is a network behind "in", as other languages ask for an address in one.
var inAddress = regexp.MustCompile(`^in +("[0-9a-fA-F.:]+/[0-9]+"|'[0-9a-fA-F.:]+/[0-9]+')`)

// unknownFunction says which function is meant by a name that is called.
func unknownFunction(env *cel.Env, name string) string {
	if other := otherFunctions[name]; other != "" {
		return fmt.Sprintf("there is no function %s: write %s", name, other)
	}
	if meant := humanize.Nearest(name, functionsOf(env)); meant != "" {
		return fmt.Sprintf("there is no function %s: did you mean %s?", name, meant)
	}
	return fmt.Sprintf("there is no function %s", name)
}

// unknownName suggests one of the candidates, or lists the names that there are.
func unknownName(name string, candidates, names []string) string {
	if meant := humanize.Nearest(name, candidates); meant != "" {
		return fmt.Sprintf("there is no %s: did you mean %s?", name, meant)
	}
	return fmt.Sprintf("there is no %s: the names are %s", name, strings.Join(names, ", "))
}

// nameAt returns the whole dotted name that stands at a place of an expression, of
// which CEL has named the start.
func nameAt(source string, at common.Location, start string) string {
	if whole := dottedName.FindString(lineFrom(source, at)); strings.HasPrefix(whole, start) {
		return whole
	}
	return start
}

// lineFrom returns the rest of the line at a place of an expression, "" where the expression has no such place.
func lineFrom(source string, at common.Location) string {
	// CEL counts lines of the expression from 1, and columns from 0 in characters.
	lines := strings.Split(source, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return ""
	}
	line := []rune(lines[at.Line()-1])
	if at.Column() > len(line) {
		return ""
	}
	return string(line[at.Column():])
}

// upToField returns as much of a dotted name as the names of variables have that begin with the same word. The rest is a field or a
// function of the value.
func upToField(name string, variables []string) string {
	parts := strings.Split(name, ".")
	for _, v := range variables {
		if strings.HasPrefix(v, parts[0]+".") {
			return strings.Join(parts[:min(len(parts), 2)], ".")
		}
	}
	return name
}

// isRequestName reports whether a name is a field of the request. An environment without any is the one in which keys are placed.
func isRequestName(name string) bool { return strings.HasPrefix(name, "request.") }

// variablesOf lists the names of values: fields of the request, data and variables, or the key.
// Names without a dot are otherwise CEL's own, of types.
func variablesOf(env *cel.Env) (names []string) {
	for _, v := range env.Variables() {
		if dottedName.MatchString(v.Name()) && (strings.Contains(v.Name(), ".") || v.Name() == keyName) {
			names = append(names, v.Name())
		}
	}
	return names
}

// functionsOf lists the functions that have a name; the others are operators. A name
// without a dot may be a misspelled one of them.
func functionsOf(env *cel.Env) (names []string) {
	for name := range env.Functions() {
		if dottedName.FindString(name) == name {
			names = append(names, name)
		}
	}
	return names
}
