package index

import "testing"

// A short chain is not near its tip before one of its blocks was indexed: the nodes may lack all of
// them.
func TestNear(t *testing.T) {
	for _, test := range []struct {
		name string
		s    Status
		want bool
	}{
		{"nothing", Status{Tip: 14, TipKnown: true}, false},
		{"the genesis of a short chain", Status{Next: 1, Tip: 14, TipKnown: true}, false},
		{"the genesis alone", Status{Next: 1, TipKnown: true}, true},
		{"the first block", Status{Next: 2, Tip: 14, TipKnown: true}, true},
		{"the first block of a long chain", Status{Next: 2, Tip: 1000, TipKnown: true}, false},
		{"nothing from a later beginning", Status{From: 6, Next: 6, Tip: 14, TipKnown: true}, false},
		{"a later beginning", Status{From: 6, Next: 7, Tip: 14, TipKnown: true}, true},
		{"no tip", Status{Next: 7}, false},
	} {
		if got := test.s.near(); got != test.want {
			t.Errorf("%s: near is %t, want %t", test.name, got, test.want)
		}
	}
}
