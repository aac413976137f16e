// Package pgfence carries the token of a lease to PostgreSQL, through fenceproxy or to a database that checks by triggers.
//
// A token belongs to the work, not to the connection: a pool outlives tenures, and a token in its configuration would give
// a zombie's connections to everybody, or everybody's to a zombie. So the token comes from the context of the work, which
// lockclient.Client.Do and Lease.Context provide, and is presented with each transaction (Begin, BeginTx), or with each
// connection taken from a pool (Configure). Before use the lease is checked, and an answer ZF001 from the database, which
// says that somebody else has taken over, marks it lost.
//
// For a connection that is opened for one tenure there is RuntimeParams, for child processes Environ.
package pgfence
