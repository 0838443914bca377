package policies

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
)

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']+)'`)
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*`)
)

// explainIssue words what CEL says of an expression, and names what was probably
// meant: CEL itself knows only the part of a dotted name up to the first dot.
func explainIssue(env *cel.Env, source string, issue *common.Error) string {
	if !undeclared.MatchString(issue.Message) {
		return strings.TrimSuffix(issue.Message, " (in container '')") + operatorMeant(issue.Message)
	}
	name := undeclared.FindStringSubmatch(issue.Message)[1]
	lines := strings.Split(source, "\n")
	if line := issue.Location.Line(); line >= 1 && line <= len(lines) {
		text := []rune(lines[line-1])
		if column := issue.Location.Column(); column <= len(text) {
			if whole := identifier.FindString(string(text[column:])); strings.HasPrefix(whole, name) {
				name = whole
			}
		}
	}
	if !strings.Contains(name, ".") {
		if slices.Contains(requestFields, name) {
			return fmt.Sprintf("there is no %s: did you mean request.%s?", name, name)
		}
	}
	if name == strings.TrimSpace(source) && !strings.Contains(name, ".") {
		return fmt.Sprintf("there is no %s: if it is a text, quote it within the quotes of YAML: '\"%s\"'; the names are %s", name, name, strings.Join(declared(env, true), ", "))
	}
	known := declared(env, strings.Contains(name, "."))
	if nearest := nearest(name, known); nearest != "" {
		return fmt.Sprintf("there is no %s: did you mean %s?", name, nearest)
	}
	return fmt.Sprintf("there is no %s: the names are %s", name, strings.Join(declared(env, true), ", "))
}

// declared lists the variables, or the functions as well.
func declared(env *cel.Env, variablesOnly bool) (names []string) {
	for _, v := range env.Variables() {
		if identifier.MatchString(v.Name()) && strings.Contains(v.Name(), ".") {
			names = append(names, v.Name())
		}
	}
	if variablesOnly {
		return names
	}
	for name := range env.Functions() {
		if identifier.FindString(name) == name {
			names = append(names, name)
		}
	}
	return names
}

// nearest returns the name with the fewest changes, if they are few.
func nearest(name string, known []string) (best string) {
	last := name[strings.LastIndexByte(name, '.')+1:]
	least := 1 + min(3, (len(last)+1)/3)
	for _, k := range known {
		if d := edits(name, k); d < least || d == least && best != "" && k < best {
			least, best = d, k
		}
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// operatorMeant says how CEL writes what other languages write otherwise.
func operatorMeant(message string) string {
	for wrong, right := range map[string]string{"'= '": "write == to compare", "'='": "write == to compare", "'and'": "write &&", "'or'": "write ||", "'not'": "write !", "'& '": "write &&", "'| '": "write ||"} {
		if strings.HasPrefix(message, "Syntax error: ") && strings.Contains(message, " "+wrong) {
			return ": " + right
		}
	}
	return ""
}
