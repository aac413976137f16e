package main

import "testing"

func TestModel(t *testing.T) {
	if err := check(shortBounds, false); err != nil {
		t.Fatal(err)
	}
}
