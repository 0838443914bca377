package policies

import (
	"fmt"
	"regexp"
	"strings"
)

// syntaxError begins CEL's messages of an expression that cannot be parsed.
const syntaxError = "Syntax error: "

// syntaxWords put the messages of CEL's parser, which are a grammar's, into words. The first that fits counts; %s is what the
// message quotes. The parser is made by ANTLR, which tells at each mistake one of these:
//
//   - it can make no word of the next characters: token recognition error;
//   - it has gone on as if a word stood there: missing;
//   - it has gone on without a word: extraneous input;
//   - it could not go on: mismatched input.
//
// Behind the latter two stands a list of all words that it would have taken, which tells an author nothing: most of the language
// could stand there. Only the end of the expression, <EOF>, does.
var syntaxWords = []struct {
	message *regexp.Regexp
	words   string
}{
	{regexp.MustCompile(`^token recognition error at: '(.*)'$`), "%s has no meaning"},
	{regexp.MustCompile(`^missing '(.*)' at '<EOF>'`), "%s is missing at the end"},
	{regexp.MustCompile(`^missing '(.*)' at '`), "%s is missing here"},
	{regexp.MustCompile(`^(?:mismatched|extraneous) input '(<EOF>)'`), "the expression ends too early"},
	{regexp.MustCompile(`^(?:mismatched|extraneous) input '(.*)' expecting <EOF>`), "the expression has ended before %s"},
	{regexp.MustCompile(`^(?:mismatched|extraneous) input '(.*)' expecting `), "%s does not belong here"},
	{regexp.MustCompile(`^no viable alternative at input '\.(.*)'$`), "behind a dot stands a name, such as request.path"},
}

// otherOperators are how other languages write CEL's operators, as its parser quotes
// them at the beginning of what it does not take. Authors of policies know them: SQL and Python, whose
// words are operators; JavaScript, with its default; shells and PHP, with signs before names; and word processors, whose quotes
// are others.
var otherOperators = []struct{ quoted, remedy string }{
	// SQL, Python, and C of which one sign was left out.
	{"=", "write == to compare"},
	{"and", "write &&"},
	{"AND", "write &&"},
	{"or", "write ||"},
	{"OR", "write ||"},
	{"not", "write !"},
	{"&", "write &&"},
	{"|", "write ||"},
	// JavaScript and Perl: a default behind a question mark, and regular expressions between slashes.
	{"?", "write orValue: request.headers[?\"x-plan\"].orValue(\"none\") has a value in any case"},
	{"/", `a regular expression is a text: path.matches("^/a")`},
	// Word processors, which replace typed quotes by their own.
	{"“", `write "`},
	{"”", `write "`},
	{"‘", "write '"},
	{"’", "write '"},
	// nginx, Perl and Ruby.
	{"~", `a regular expression is asked by path.matches("^/a")`},
	{"=~", `a regular expression is asked by path.matches("^/a")`},
	// Shells and PHP, and languages whose statements have an end sign.
	{"$", "a name has no sign in front of it"},
	{";", "an expression has no end sign"},
	// Signs of SQL, of Pascal and of lists in parentheses.
	{">", "<> is written !="},
	{",", `a list has brackets, such as ["GET", "HEAD"]`},
	// Operators that are words, in SQL and in firewalls.
	{"LIKE", `write startsWith, endsWith or contains: path.startsWith("/a")`},
	{"like", `write startsWith, endsWith or contains: path.startsWith("/a")`},
	{"IN", `write in ["GET", "HEAD"]`},
	{"IS", "write == to compare"},
	{"is", "write == to compare"},
	{"startsWith", `it is called: path.startsWith("/a")`},
	{"endsWith", `it is called: path.endsWith("/a")`},
	{"contains", `it is called: path.contains("/a")`},
	{"matches", `it is called: path.matches("^/a")`},
	// Numbers as programs write them.
	{"_", "a number has digits alone"},
}

// syntaxOf words an error of syntax, and says how CEL writes what other languages write in another way.
func syntaxOf(message string) string {
	message = strings.TrimPrefix(message, syntaxError)
	for _, known := range syntaxWords {
		m := known.message.FindStringSubmatch(message)
		if m == nil {
			continue
		}

		// The text that CEL has quoted goes into the words, and decides whether there is something to write instead.
		words, quoted := known.words, strings.TrimSpace(m[1])
		if strings.Contains(words, "%s") {
			words = fmt.Sprintf(words, quoted)
		}
		return syntaxError + words + remedyOf(quoted)
	}
	return syntaxError + message
}

// remedyOf says what to write instead of a text that CEL does not take, "" for any other.
func remedyOf(quoted string) string {
	// The parser quotes a text without its end up to the end of the line.
	q := quoted[:min(1, len(quoted))]
	if (q == `"` || q == "'") && strings.Contains(quoted, `\`) {
		return ": in a text a backslash is written twice, or the text is a raw one, such as r" + q + `\d` + q
	}
	if q == "`" {
		return `: write " around a text`
	}
	if q == `"` || q == "'" {
		return ": a text is not closed: write " + q + " at its end"
	}

	for _, operator := range otherOperators {
		if quoted == operator.quoted || operator.quoted == "_" && strings.HasPrefix(quoted, "_") {
			return ": " + operator.remedy
		}
	}
	return ""
}

// The checker of types names an operator as CEL does, such as _+_ or !_, and gives the types in parentheses; a function it names with
// the type that it is called on, such as string.(int).
var (
	// noOverload is CEL's message of an operator or a function for values of other types.
	noOverload = regexp.MustCompile(`^found no matching overload for '(.*)' applied to '(.*)'`)
	// operatorSign is the sign in CEL's name of an operator.
	operatorSign = regexp.MustCompile(`^_?([^_A-Za-z]+)_?$`)
	// mixedTypes is a pair of types of which one must be made the other. CEL makes none by itself: 1 + 1.5 is as wrong as 1 + "a".
	mixedTypes = regexp.MustCompile(`^\((?:int|uint|double|string), (?:int|uint|double|string)\)$`)
)

// overloadOf words an error of types, "" for another message.
func overloadOf(message string) string {
	m := noOverload.FindStringSubmatch(message)
	if m == nil {
		return ""
	}

	// Two operators have no sign that an author would know from the message.
	if m[1] == "_?_:_" {
		return fmt.Sprintf("both results of ? : must be of one type, and these are of %s", strings.TrimPrefix(strings.Trim(m[2], "()"), "bool, "))
	}
	if m[1] == "orValue" && strings.HasPrefix(m[2], "optional_type(") {
		value, fallback, _ := strings.Cut(strings.TrimPrefix(m[2], "optional_type("), ").(")
		return fmt.Sprintf("the value is of type %s, and its default of type %s: make them one type", value, strings.TrimSuffix(fallback, ")"))
	}
	if m[1] == "@in" {
		return `in takes a list or a table behind it, such as in ["GET", "HEAD"]`
	}

	// A name with letters is a function, and the type that it is called on says more than the message.
	sign := operatorSign.FindStringSubmatch(m[1])
	if sign == nil && strings.HasPrefix(m[2], "list(") {
		return fmt.Sprintf("there is no %s for a list: write request.method in [\"GET\", \"HEAD\"]", m[1])
	}
	if sign == nil {
		return fmt.Sprintf("there is no %s for %s%s", m[1], m[2], usesOf[m[1]])
	}
	words := fmt.Sprintf("%s does not take %s", sign[1], strings.ReplaceAll(strings.Trim(m[2], "()"), ", ", " and "))
	return words + remedyOfTypes(m[2])
}

// usesOf say how functions are called that are often called in another way.
var usesOf = map[string]string{
	"orValue": `: it needs the optional access, as request.headers[?"x-plan"].orValue("none") has it`,
	"ipGroup": ": write ipGroup(request.ip), or with the bits of both families ipGroup(request.ip, 24, 56)",
}

// remedyOfTypes says how values of two types become comparable. Both is the list of the operands' types in CEL's message, such
// as (int, string); "" is returned for types whose remedy the message itself shows.
func remedyOfTypes(both string) string {
	// Numbers and texts are mixed most often, so their remedy comes first.
	switch {
	case mixedTypes.MatchString(both):
		return ": both must be of one type, which string(...), int(...) and double(...) make"

	case strings.Contains(both, "optional_type"):
		return `: give what [?...] asks for a default, by .orValue("")`

	case strings.Contains(both, "timestamp"):
		return `: an instant is timestamp("2026-01-01T00:00:00Z"), and a time of day request.time.getHours()`

	case both == "(duration, string)" || both == "(string, duration)":
		return `: write the duration as duration("1h")`

	case both == "(list(string), string)" || both == "(string, list(string))":
		return `: write key[0] for a part of the key, and "a" in LIST for a list`

	case both == "(string)":
		return `: compare it, such as request.user == ""`

	case strings.Contains(both, "null"):
		return `: no value is null; a text that is absent is ""`
	}

	return ""
}

// dashedName is a header, a claim or a parameter behind a dot, whose name has a dash. Most headers ask for that mistake: x-tenant behind
// a dot is x less tenant to CEL, which tells of a missing name and of an operator for wrong types.
var dashedName = regexp.MustCompile(`request\.(headers|claims|query)(?:\.|\[\??)([A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)+)`)

// dashedVariable is a variable or a table whose name has a dash.
var dashedVariable = regexp.MustCompile(`\b(?:variables|data)\.[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)+`)

// negated is a negation in words, which SQL and Python have. CEL takes the word for a name, and tells of what stands behind it. What
// stands in quotes, or behind a dot, is no word of the language.
var negated = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\.\w+|\b(?:not|NOT|Not)\b`)

// negatedIn words the mistake of such a negation, as dashedIn.
func negatedIn(source string) (at int, message string) {
	for _, m := range negated.FindAllStringIndex(source, -1) {
		if word := source[m[0]:m[1]]; strings.EqualFold(word, "not") {
			return len([]rune(source[:m[0]])), fmt.Sprintf("%s is no operator: write !(...), with the condition in parentheses", word)
		}
	}
	return 0, ""
}

// mistakeIn words a mistake that CEL would tell of in words that lead astray, and its place in characters. It is "" where there is
// none. The expression is one that CEL has refused.
func mistakeIn(source string) (at int, message string) {
	if at, message := dashedIn(source); message != "" {
		return at, message
	}

	// Numbers and braces of other programs.
	if m := wordForNumber.FindStringSubmatch(source); m != nil {
		return 0, fmt.Sprintf("a limit has no unit: write limit: %s, and the time as window", m[1])
	}
	if m := template.FindStringSubmatch(source); m != nil {
		return 0, fmt.Sprintf("an expression has no braces around it: write %s", m[1])
	}
	if m := templateInside.FindStringSubmatchIndex(source); m != nil {
		return len([]rune(source[:m[0]])), fmt.Sprintf("a name has no braces around it: write %s", source[m[2]:m[3]])
	}

	// A name of a header alone, and a negation in words.
	if bareHeader.MatchString(source) {
		return 0, fmt.Sprintf("there is no %s: a header is request.headers[?%q].orValue(\"none\")", source, source)
	}
	return negatedIn(source)
}

// wordForNumber is a limit as other programs write it, such as 100/m or 100 per minute.
var wordForNumber = regexp.MustCompile(`^([0-9]+) *(?:/|per) *(?:s|m|h|d|sec|min|hour|day|second|minute)$`)

// template is an expression as templates of other programs have it.
var template = regexp.MustCompile(`^\s*\$?\{\{?\s*([^{}]+?)\s*\}?\}\s*$`)

// templateInside is such a name within an expression. Single braces within one belong to a table, or to a regular expression.
var templateInside = regexp.MustCompile(`(?:\$\{|\$?\{\{) *([\w.]+) *\}`)

// bareHeader is a name with dashes alone, as those of headers are. CEL takes the dashes for subtractions.
var bareHeader = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+$`)

// dashedIn words the mistake of such a name, as mistakeIn.
func dashedIn(source string) (at int, message string) {
	if m := dashedVariable.FindStringIndex(source); m != nil {
		name := source[m[0]:m[1]]
		return len([]rune(source[:m[0]])), fmt.Sprintf("behind a dot a name has no dash: write %s", strings.ReplaceAll(name, "-", "_"))
	}
	m := dashedName.FindStringSubmatchIndex(source)
	if m == nil {
		return 0, ""
	}

	field, name := source[m[2]:m[3]], source[m[4]:m[5]]
	return len([]rune(source[:m[0]])), fmt.Sprintf("a name with a dash stands in quotes and brackets: write request.%s[?%q].orValue(\"none\")",
		field, name)
}
