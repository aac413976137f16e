// Package conversation runs protocol conversations, written as text, against PostgreSQL directly and through the proxy,
// and compares the replies byte for byte. What the proxy must change is written beside what PostgreSQL says by itself.
//
//	== an update, described and executed in one batch
//	session {10}
//	> Show UPDATE acct SET bal = bal + 1 WHERE id = 1
//	> Sync
//	< 1 2 n C(UPDATE 1) Z(I)
//	raise {20}
//	> Query UPDATE acct SET bal = 0
//	<direct C(UPDATE 3) Z(I)
//	<proxy E(ZF001) Z(I)
//
// A line of '>' is a message of the client; those that follow each other leave in one write. A line of '<' is what must
// come back before the next step, one word per message: its type byte, for some with what matters of it. Expectations
// differ by route:
//
//	<        every route, byte for byte as direct
//	<direct  PostgreSQL without the proxy (and through it in the modes observe and off)
//	<proxy   through the enforcing proxy, whichever way it learns of a raise
//	<early   through the proxy that carried the raise itself and remembers it
//	<late    through the proxy when somebody else raised, so that only the database knows
//
// Tokens stand in braces and grow from run to run, since marks never go down; {name} is text given by `let name = text`
// at the head of the file. Replies before the first step are those to the startup packet, without what tells of the
// session (R, S, K). What others do meanwhile:
//
//	before {n}   somebody presents a token before the session starts
//	raise {n}    somebody presents a token and is let in
//	raise& {n}   the same, started only; it may have to wait
//	waiting      that one now waits in PostgreSQL
//	raised       and must have been let in by now
//	hold {n}     another session writes under a token and keeps its transaction open; `release` commits it
//	protocol 3.2 the version of the protocol that the client asks for, instead of 3.0
//	whole        only where the messages of a packet are read together
//	below N      not on PostgreSQL N and newer, which answer otherwise
//	other SQL    a statement of somebody who came directly
package conversation
