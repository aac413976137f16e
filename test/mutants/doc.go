// Mutants breaks the product in the ways listed in list.go, one at a time, and runs the tests that must notice. It prints
// which test went red, and fails when a mutant survives. Nothing in the work tree is changed: the compiler reads the
// broken file in place of the real one (go build -overlay).
//
//	go run ./test/mutants            all of them
//	go run ./test/mutants -run lock  those whose name matches
package main
