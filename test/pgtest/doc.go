// Package pgtest starts throw-away PostgreSQL clusters for tests. Each cluster has its own data directory, its own free
// loopback port and a Unix socket directory, trusts everybody who connects, and ends with the test (or with the test
// binary, should that be killed). Nothing of an installed server's own clusters is touched.
//
// Start gives a test its own cluster, which it may kill and restart. Shared gives all tests of a binary one cluster,
// where each takes a database of its own with NewDatabase; such a binary calls Main from TestMain.
package pgtest
