// Package rewrite turns SQL text into a Plan: which statements it holds, what each does to the transaction, the
// session and the fenced tables. PostgreSQL's own grammar decides; it runs only when neither the exact text nor its
// token shape is cached. What cannot be read is EffectUnknown, what calls unknown code is EffectOpaque; neither is ever
// reported as harmless. The package knows SQL text only: no sockets, no protocol, no tokens' values beyond literals.
//
// The way of a text: settings and encoding are checked (gate), tokens are found (lex), equal rows of VALUES and
// the elements of long lists are left out (rows, lists), the caches are asked, by text for what a literal decides and by shape for everything else (shape, cache). On a
// miss the tokens are measured (depth), joined, parsed (parse) and the tree is judged (judge, walk, session, schema).
//
// # Pitfalls
//
// A text does not tell everything. Not seen here, and closed only by triggers on the fenced tables: a view over a fenced
// table under another name, rules, foreign keys ON DELETE CASCADE, triggers, deferred triggers at COMMIT, partitions and
// children that the configuration does not name; functions of the application behind a built-in name that search_path
// finds first, in functional notation (t.f), in operators, casts, domain checks, column defaults, policies and views;
// subscriptions, and DROP DATABASE of another database.
//
// What a plan says of one statement is not the whole of it for four kinds. EXECUTE does what the prepared statement
// does; its own Effect is that of its arguments. FETCH and MOVE run what the cursor holds, and the name may also be a
// portal of the extended protocol: FETCH ALL FROM p executes an UPDATE ... RETURNING that was only bound to p
// (pquery.c PortalRunFetch; tested on a server). EXPLAIN EXECUTE is of KindExecute. KindNoBlock commits at once, also in
// the middle of a pipeline, and releases every guard (postgres.c, XACT_FLAGS_NEEDIMMEDIATECOMMIT).
//
// A changed standard_conforming_strings or client_encoding changes how the next text is read, and ParameterStatus comes
// too late for a client that pipelines: see Statement.ChangesLexing.
//
// Tokens that are stored for sessions to come (ALTER ROLE, ALTER DATABASE, ALTER SYSTEM ... SET fence.token) pass; such
// a value is refused where a session presents it.
package rewrite
