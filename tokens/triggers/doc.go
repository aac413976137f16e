// Package triggers puts the guard on fenced tables themselves, for the writes that no proxy sees in a text: of clients
// that bypass it, of functions, procedures, rules, views and cascades. A trigger asks the database what the proxy's guard
// asks, at each statement.
//
// Plan compares a database with a configuration and lists what is to be done; Install does it in one transaction. What
// no trigger can hold is in docs/triggers.md.
package triggers
