// Package holding holds a lock for the clients of a proxy that know nothing of it (serve --hold). Sessions that begin while
// the lock is held carry its token; they end when the lock is lost, and begin again under the next token.
package holding
