// Command fenceproxy puts fencing tokens in front of PostgreSQL: a writer whose lock was taken over by somebody else
// can no longer change fenced data. See docs/ for configuration and operation.
package main
