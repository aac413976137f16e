package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// The demo tells what happens: with the proxy the write is refused, without it the money is lost, and show fails when
// it goes otherwise. Standard input of a test is no terminal, so it ends by itself.
func TestDemoPlaysBothActsAndEnds(t *testing.T) {
	var out bytes.Buffer
	if err := show(context.Background(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, part := range []string{"ZF001", "nothing was lost", "70 is lost", "fence.token=35", "psql 'postgres://app@"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("nothing of %q in:\n%s", part, out.String())
		}
	}
}
