package main

import (
	"slices"
	"testing"
)

// A mutant whose text has moved on breaks nothing and would be found only by the long run.
func TestEveryMutantStillApplies(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(planted, mutants) {
		for _, e := range m.edits() {
			if _, err := e.apply(root, nil); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
	}
}

func TestHuntedMutantsAreInTheList(t *testing.T) {
	for _, h := range append(hunted, pinned...) {
		if _, err := find(h.mutant); err != nil {
			t.Error(err)
		}
	}
}
