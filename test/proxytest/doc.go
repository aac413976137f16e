// Package proxytest builds the fenceproxy binary once per test binary and runs it in front of a test cluster, as a
// process of its own that can be killed, stopped and started again on the same address. It also holds what the tests
// need around it: the fence schema of a database, the admin page's figures, and a relay that cuts the stream into
// small pieces.
package proxytest
