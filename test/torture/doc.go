// Package torture attacks the guarantee with real parts: PostgreSQL, two proxies, etcd, the lease table, and workers in
// processes of their own, which are stopped, killed and held back between any two messages while others take over.
//
// A run is a sequence of schedules of some seconds. Everything random in a schedule is drawn from its seed: who works on
// which fence, how tokens are presented, what transactions look like, where they are held back, what is stopped or killed.
// The clock is real, so the same seed gives the same pressure and not the same interleaving: a replay runs one schedule
// again and again until it fails.
//
// Judges, none of which asks the proxy:
//
//   - the commit log (commitlog.go): PostgreSQL's logical decoding gives the transactions in commit order, with the token
//     that each writer believed in as a column of the rows it wrote. Per fence tokens never decrease, and none is below a
//     mark that was raised before;
//
//   - the application's own invariants (ledger.go): transfers between accounts keep the sum, a chain of read-modify-write
//     elements has no gap and no fork, a set loses nothing. No token is needed to see that;
//
//   - what the workers were told (history.go): what was acknowledged is in the commit log, what was refused is not;
//
//   - linearizability (linear.go): per fence, the history of raises, reads and writes has an order that a register with a
//     mark could have produced. A connection lost at COMMIT is an open operation.
//
//     go test ./test/torture -count=1 -v -run TestTorture -torture.time=10m
package torture
