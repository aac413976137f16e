// Package rewrite turns SQL text into a Plan: which statements it holds, what each does to the transaction, the
// session and the fenced tables. PostgreSQL's own grammar decides; it runs only when neither the exact text nor its
// token shape is cached. What cannot be read is EffectUnknown, what calls unknown code is EffectOpaque; neither is ever
// reported as harmless. The package knows SQL text only: no sockets, no protocol, no tokens' values beyond literals.
//
// The way of a text: settings and encoding are checked (gate), tokens are found (lex), equal rows of VALUES and
// the elements of long lists are left out (rows, lists), the caches are asked, by text for what a literal decides and by shape for everything else (shape, cache). On a
// miss the tokens are measured (depth), joined, parsed (parse) and the tree is judged (judge, walk, session, schema).
//
// # Row tokens
//
// A fence with Fence.RowToken keeps in each row the token of its last write. The plan of a text that writes such rows has
// edits: column, value and check are spliced in at tokens, everything else stays byte for byte. The tree decides (rowwrite,
// handwritten, splice...), the spliced text is parsed again and must give the tree that is wanted (splice.verified), and
// both happen once for a shape; each text of it gets Patches (patch). What cannot be spliced has a Refuse.
//
// What the caller does with a plan, in this order:
//
//   - Statement.Refuse of any statement refuses the whole text, as ever.
//   - Statement.Fences are guarded as ever. A fence whose name has a * is guarded with fence.guard_pattern(name, bare,
//     false), because a pattern has no mark of its own; or, where the caller knows the session's token, like the fence of
//     the name that matches.
//   - Statement.RowFences (StaleRewrite) need no guard: the check stands in the statement. NewRows (StaleRewrite) are
//     guarded only if the session's token for the fence has a name: fence.guard_pattern(name, bare, true) in doubt. A stale
//     token is no reason to refuse a statement that has nothing but these: it touches 0 rows, and its tag says so.
//   - Plan.Spliced: Analysis.AppendSpliced is what goes into Query and Parse. In a string of several statements it is
//     called for each, from one of Starts to the next, so that guards can stand between. Parameters, their types and the
//     columns of the result are the same, so that Bind, Describe and Execute pass as they are. Plan.ASCIISplice says that
//     what is put in means the same in any encoding; if not, a session in another encoding than UTF-8 must refuse (ZF004).
//   - AppendShifts while the text is at hand, and Original for the position in an error: false is a position in what was
//     put in, which the client cannot have meant. Drop it.
//   - Starts and Patches are offsets in the text that was analysed: who analyses a transcoded one maps them back.
//   - Plan.Spliced is false for EffectUnknown: such a text is guarded for every fence, or refused, as ever.
//
// Errors come from the statement itself, at its place: ZF001 a newer token has written the row (StaleReject), ZF002 no
// token for the fence or, with a scope, for this row's, ZF003 several tokens for one fence, or a token too large for a row
// (epochs below 2^15, counters below 2^48). A ZF001 of a row says nothing of the fence's mark: not a token to remember as
// stale. The token is read from the setting at execution: nothing of it is in the text, in a plan or in a prepared statement.
//
// The forms, with ROW for the row as the statement names it and TOKEN for (SELECT fence.row_token('fence', bare)), which is
// evaluated once:
//
//	StaleReject    UPDATE   SET col = fence.row_stamp(ROW.col, TOKEN, 'fence'), ...
//	               DELETE   WHERE (cond) AND (CASE WHEN (cond) THEN fence.row_check(ROW.col, TOKEN, 'fence') ELSE false END)
//	StaleRewrite   UPDATE   SET col = TOKEN, ... WHERE (cond) AND COALESCE(ROW.col, 0) <= TOKEN
//	               DELETE   WHERE (cond) AND COALESCE(ROW.col, 0) <= TOKEN
//	both           INSERT   col at the end of the columns, fence.row_token(...) at the end of each row or list of targets
//
// UPDATE and DELETE of one table, with column = V among the conditions that WHERE joins by AND and V a constant or a
// parameter, have TOKEN without SELECT, and fence.row_fits(ROW.col, 'fence', bare) for the comparison: planning a subselect
// takes longer than the calls for some rows (rowpoint).
//
// SET is evaluated for the rows that are to be written, and again for the newest version after a wait (execMain.c
// EvalPlanQual), so an UPDATE that matches nothing stays UPDATE 0. WHERE is not: the planner may evaluate a condition before
// a join or a subselect leaves the row out. Hence the CASE, and the copy: the condition itself stays where indexes and
// joins find it. If it may change its answer (steady), it is moved into the CASE instead, at the price of a sequential scan.
// ON CONFLICT DO UPDATE is an UPDATE, and each action of MERGE is the statement of its name.
//
// # Pitfalls
//
// An INSERT without a list of columns gets one from the Catalog, as it was when the text was analysed. A rename that swaps
// two columns between that moment and the statement would swap their values: a Catalog answers "not known" from the
// moment that DDL is seen until it has looked again, and text that holds DDL in front of such an INSERT names no columns
// at its own risk.
//
// A text does not tell everything. Not seen here, and closed only by triggers on the fenced tables: what Fence.Found does
// not name of views over a fenced table, partitions and functions; rules, foreign keys ON DELETE CASCADE, triggers, deferred
// triggers at COMMIT, functions of the application behind a built-in name that search_path finds first, in functional notation (t.f), in operators, casts, domain checks, column defaults, policies and views;
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
