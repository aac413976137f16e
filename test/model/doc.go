// Model searches every state of a small model of the fence protocol (fence.pml): sessions through two proxies, snapshots,
// guard, announcement, raise, savepoints, eviction, a crash. The assertions are the guarantee and the invariants I1 to I4.
// Then it breaks the protocol in the ways that variants.go lists, one at a time, and expects spin to find each.
//
//	go run ./test/model         under a minute; what make model runs
//	go run ./test/model -full   larger bounds too
//
// It needs spin and gcc (Debian: apt-get install spin gcc).
package main
