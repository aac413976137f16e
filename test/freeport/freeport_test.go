package freeport

import (
	"net"
	"testing"
)

func TestTake(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		a, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		if seen[a] {
			t.Fatal("twice: " + a)
		}
		seen[a] = true
	}
	for a := range seen {
		l, err := net.Listen("tcp", a)
		if err != nil {
			t.Error(err)
			continue
		}
		l.Close()
	}
}
