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

// edits is the optimal string alignment distance, in bytes: two neighbours that are swapped, the commonest typing error, are one
// edit. It keeps three rows of the matrix: the name comes from a file, and may be as long as an expression.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}

	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = last[j]
			if a[i] != b[j] {
				row[j+1] = 1 + min(last[j], row[j], last[j+1])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
