// Package suggest finds the known name that resembles an unknown one.
package suggest

// Name finds the name that was probably meant, and returns a question that ends a sentence.
func Name(name string, known []string) string {
	if best := Nearest(name, known); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// Nearest returns the name that was probably meant, or an empty string.
func Nearest(name string, known []string) string {
	best, distance := "", min(4, len(name)/2+1) // short names resemble everything
	for _, k := range known {
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
