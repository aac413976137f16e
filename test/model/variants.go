package main

// bounds of a search. Every session runs up to transactions transactions.
type bounds struct{ sessions, transactions, crashes int }

var (
	shortBounds = []bounds{{2, 3, 1}, {3, 1, 0}, {3, 1, 1}}
	fullBounds  = append(shortBounds, bounds{2, 5, 1}, bounds{3, 2, 0})

	// Every variant is refuted within these.
	variantBounds = bounds{2, 2, 1}
)

// variant is one way to break the protocol.
type variant struct {
	define string
	what   string
	breaks string // the assertion that fails
}

const (
	order    = "((me+1)>=last)"       // tokens of committed transactions never decrease
	monotone = "((me+1)>mark)"        // a mark never goes down
	durable  = "(mark>=acknowledged)" // an acknowledged mark survives
	unlost   = "(read==x)"            // nothing of an older holder is overwritten unseen
	stuck    = "invalid end state"    // a takeover comes to its end

)

var variants = []variant{
	{"GUARD_WITHOUT_LOCK", "guard without the lock", order},
	{"GUARD_IN_ONE_STATEMENT", "guard that locks and reads in one statement, so by a snapshot from before the lock", order},
	{"NO_XMAX_RULE", "guard without the xmax rule, by an old snapshot", order},
	{"GUARD_RAISES", "guard that raises, in the application's transaction, and no announcement", unlost},
	{"ANNOUNCED_AT_FIRST_WRITE", "raise at the holder's first write instead of when it presents its token", unlost},
	{"NO_GUARD_AFTER_ROLLBACK_TO", "no guard again after ROLLBACK TO SAVEPOINT", order},
	{"HELD_ACROSS_COMMIT", "a guard counts in the next transaction (COMMIT AND CHAIN)", order},
	{"MEMORY_ACCEPTS", "the proxy passes a token that it knows was the mark", order},
	{"RAISE_WITHOUT_LOCK", "raise without the lock", monotone},
	{"RAISE_READS_ONCE", "raise that does not read again under the lock", monotone},
	{"RAISE_NOT_DURABLE", "raise that is acknowledged before it is on disk", durable},
	{"NO_EVICTION", "nobody ends a holder that has stopped in its transaction", stuck},
}
