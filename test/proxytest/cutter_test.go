package proxytest

import "testing"

// What a relay writes in pieces is what it read: pieces are not empty and add up to the whole.
func TestCutsAddUp(t *testing.T) {
	for name, cut := range map[string]func([]byte) []int{"single bytes": SingleBytes, "random pieces": RandomPieces(3)} {
		for n := range 200 {
			sum := 0
			for _, k := range cut(make([]byte, n)) {
				if k <= 0 {
					t.Fatalf("%s: a piece of %d", name, k)
				}
				sum += k
			}
			if sum != n {
				t.Fatalf("%s: pieces of %d bytes add up to %d", name, n, sum)
			}
		}
	}
}
