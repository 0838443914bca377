package humanize

import "strings"

// Remedy names the known name that was probably meant, or all of them: an unknown name is
// nearly always a typing error.
func Remedy(name string, known []string) string {
	if meant := Nearest(name, known); meant != "" {
		return "did you mean " + meant + "?"
	}
	return "there are " + strings.Join(known, ", ")
}

// Nearest returns the known name with the fewest edits, the first in order of several;
// "" if even that takes more than a third of the name's last word, or more than three.
func Nearest(name string, known []string) (best string) {
	// The words before the last dot are mostly right, and must not buy more edits.
	last := name[strings.LastIndexByte(name, '.')+1:]
	least := 1 + min(3, (len(last)+1)/3)
	for _, k := range known {
		if d := edits(name, k); d < least || d == least && best != "" && k < best {
			least, best = d, k
		}
	}
	return best
}

// edits is the Levenshtein distance, in bytes. It keeps one row of the matrix: the name
// comes from a file, and may be as long as an expression.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	// diagonal is the value of the row before that the new one has just replaced.
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			distance := diagonal
			if a[i] != b[j] {
				distance = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], distance
		}
	}
	return row[len(b)]
}
