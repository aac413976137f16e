package tokens

import "strconv"

// LockClass is the first half of every fence's advisory lock key ("FENC"); the second is Mark.ID.
const LockClass int32 = 1178947139

// Mark is the highest token ever raised for a fence.
type Mark struct {
	ID    int32 // unique among the marks of a database, never reused
	Name  string
	Token Token
}

// The guard for the extended protocol, in its fast form: two statements, each with its own Bind and Execute, in the
// order Bind lock, Execute lock, Bind read, Execute read. A SELECT takes its snapshot at Bind, and the read's must be
// newer than the lock (postgres.c exec_bind_message).
//
// GuardReadSQL decides by itself only when everything agrees: mark, name, the session's own raw text, and that this text
// holds the token. Whatever differs, a missing row too, goes to fence.guard, which knows the truth or the error. One text
// column: the raw text checked.
const (
	GuardLockSQL = "SELECT pg_catalog.pg_advisory_xact_lock_shared(1178947139, $1::pg_catalog.int4)" // $1 Mark.ID

	// $1 int4 Mark.ID, $2 text fence, $3 text raw, $4 int8 epoch, $5 int8 counter, $6 text fence of bare tokens, '' for none
	GuardReadSQL = "SELECT COALESCE((SELECT $3::pg_catalog.text FROM fence.mark AS m" +
		" WHERE m.id OPERATOR(pg_catalog.=) $1::pg_catalog.int4 AND m.name OPERATOR(pg_catalog.=) $2::pg_catalog.text" +
		" AND m.token OPERATOR(pg_catalog.=) $5::pg_catalog.int8 AND m.epoch OPERATOR(pg_catalog.=) $4::pg_catalog.int8" +
		" AND pg_catalog.current_setting('fence.token', true) OPERATOR(pg_catalog.=) $3" +
		readNewest +
		" AND (CASE WHEN $6::pg_catalog.text OPERATOR(pg_catalog.=) $2 AND $4 OPERATOR(pg_catalog.=) 0 AND $3 OPERATOR(pg_catalog.=) $5::pg_catalog.text THEN true" +
		" ELSE pg_catalog.strpos(" + readList + ", ',' OPERATOR(pg_catalog.||) $2 OPERATOR(pg_catalog.||) '=' OPERATOR(pg_catalog.||) " + readItem + ") OPERATOR(pg_catalog.>) 0" +
		" OR $6 OPERATOR(pg_catalog.=) $2 AND pg_catalog.strpos(" + readList + ", ',' OPERATOR(pg_catalog.||) " + readItem + ") OPERATOR(pg_catalog.>) 0 END))" +
		", fence.guard(ARRAY[$2], $6))"

	// What the snapshot shows is the newest version of the mark, and holds on the server's timeline.
	readNewest = " AND (m.xmax OPERATOR(pg_catalog.=) '0'::pg_catalog.xid OR pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed')" +
		" AND (m.timeline IS NULL OR CASE WHEN pg_catalog.pg_is_in_recovery() THEN true ELSE m.timeline OPERATOR(pg_catalog.=)" +
		" pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) END)"

	readList = "',' OPERATOR(pg_catalog.||) $3 OPERATOR(pg_catalog.||) ','"
	readItem = "(CASE WHEN $4 OPERATOR(pg_catalog.=) 0 THEN '' ELSE $4::pg_catalog.text OPERATOR(pg_catalog.||) '.' END OPERATOR(pg_catalog.||) $5::pg_catalog.text OPERATOR(pg_catalog.||) ',')"
)

// The same two steps for a session whose whole text is the token of one fence, as constants: statements that a session
// prepares once for each of its fences. They are planned once, whatever plan_cache_mode says, and an EXECUTE of them has
// nothing to evaluate (choose_custom_plan, EvaluateParams).

// Alone reports whether raw is the text of nothing but m.Token as the token of m, and whether it names the fence. bare is
// the fence of bare tokens, "" for none.
func Alone(raw string, m Mark, bare string) (named, ok bool) {
	switch text := m.Token.String(); raw {
	case text:
		return false, m.Name == bare
	case m.Name + "=" + text:
		return true, true
	}
	return false, false
}

// AppendLockSQL appends the first step.
func AppendLockSQL(dst []byte, m Mark) []byte {
	dst = append(dst, "SELECT pg_catalog.pg_advisory_xact_lock_shared(1178947139, "...)
	return append(strconv.AppendInt(dst, int64(m.ID), 10), ')')
}

// AppendReadSQL appends the second step, for any token of m's epoch: the counter is read from the mark and compared, with
// name and epoch in front, with all of the session's text. Whatever differs goes to fence.guard, as above.
func AppendReadSQL(dst []byte, m Mark, named bool, bare string) []byte {
	dst = append(dst, "SELECT COALESCE((SELECT pg_catalog.current_setting('fence.token', true) FROM fence.mark AS m WHERE m.id OPERATOR(pg_catalog.=) "...)
	dst = strconv.AppendInt(dst, int64(m.ID), 10)
	dst = appendLiteral(append(dst, " AND m.name OPERATOR(pg_catalog.=) "...), m.Name)
	dst = append(dst, " AND m.epoch OPERATOR(pg_catalog.=) "...)
	dst = strconv.AppendInt(dst, m.Token.Epoch, 10)
	dst = append(dst, " AND pg_catalog.current_setting('fence.token', true) OPERATOR(pg_catalog.=) "...)
	prefix := ""
	if named {
		prefix = m.Name + "="
	}
	if m.Token.Epoch != 0 {
		prefix += strconv.FormatInt(m.Token.Epoch, 10) + "."
	}
	if prefix != "" {
		dst = append(appendLiteral(append(dst, '('), prefix), " OPERATOR(pg_catalog.||) m.token::pg_catalog.text)"...)
	} else {
		dst = append(dst, "m.token::pg_catalog.text"...)
	}
	dst = append(append(dst, readNewest...), "), fence.guard(ARRAY["...)
	dst = append(appendLiteral(dst, m.Name), "], "...)
	return append(appendLiteral(dst, bare), "))"...)
}

// The other forms, one statement each; they lock, read and compare in the database. Both return one text column: the
// session's raw token text (” or NULL when absent, which only a tokenless guard of the session can return).
const (
	GuardSQL        = "SELECT fence.guard($1::pg_catalog.text[], $2::pg_catalog.text)"       // $1 fences, $2 fence of bare tokens, '' for none
	GuardSessionSQL = "SELECT fence.guard_session($1::pg_catalog.text, $2::pg_catalog.bool)" // every fence the session has a token for; $2: having none is allowed
)

// GuardReadOnlySQL is GuardSessionSQL for sessions that may not write without a token: if there is none, it makes the
// transaction read-only, from here to its end. No client can undo that: the statement has a snapshot (variable.c
// check_transaction_read_only). A list without a digit holds no token.
const (
	GuardReadOnlySQL = guardReadOnlyHead + "$1::pg_catalog.text, $2::pg_catalog.bool" + guardReadOnlyTail

	guardReadOnlyHead = "SELECT CASE WHEN COALESCE(fence.guard_session("
	guardReadOnlyTail = "), '') OPERATOR(pg_catalog.~) '[0-9]' THEN '' ELSE pg_catalog.set_config('transaction_read_only', 'on', true) END"
)

// SessionQuestionSQL asks a session who it is: one row of text columns: fence.token as it stands (NULL if absent),
// database, system identifier, 't' in recovery or 'f', session user.
const SessionQuestionSQL = "SELECT pg_catalog.current_setting('fence.token', true), pg_catalog.current_database()::pg_catalog.text," +
	" (SELECT s.system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system() AS s)," +
	" CASE WHEN pg_catalog.pg_is_in_recovery() THEN 't' ELSE 'f' END, session_user::pg_catalog.text"

// The builders append the guard for the simple protocol: one statement on one line, without a semicolon, with one
// result of one row. ASCII without backslashes, so it means the same under any client_encoding and any
// standard_conforming_strings. Fence names must be valid (ValidName).

// AppendFastGuard appends the fast form for one fence. raw is the session's token text as the caller knows it and t what
// it holds for the fence.
func AppendFastGuard(dst []byte, m Mark, raw string, t Token, bare string) []byte {
	if !spliceable(raw) {
		return AppendGuard(dst, []string{m.Name}, bare)
	}
	dst = append(dst, "SELECT fence.guard1("...)
	dst = append(appendLiteral(dst, m.Name), ',')
	dst = append(strconv.AppendInt(dst, int64(m.ID), 10), ',')
	dst = append(appendLiteral(dst, raw), ',')
	dst = append(strconv.AppendInt(dst, t.Epoch, 10), ',')
	dst = append(strconv.AppendInt(dst, t.Counter, 10), ',')
	return append(appendLiteral(dst, bare), ')')
}

// AppendGuard appends the guard for any number of fences, at least one.
func AppendGuard(dst []byte, fences []string, bare string) []byte {
	dst = append(dst, "SELECT fence.guard(ARRAY["...)
	for i, f := range fences {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendLiteral(dst, f)
	}
	return append(appendLiteral(append(dst, "],"...), bare), ')')
}

// AppendGuardSession appends the guard for every fence that the session has a token for. tokenless: having none passes.
func AppendGuardSession(dst []byte, bare string, tokenless bool) []byte {
	dst = appendLiteral(append(dst, "SELECT fence.guard_session("...), bare)
	if tokenless {
		return append(dst, ",true)"...)
	}
	return append(dst, ",false)"...)
}

// AppendGuardReadOnly appends the same, which makes the transaction read-only if the session has no token.
func AppendGuardReadOnly(dst []byte, bare string, tokenless bool) []byte {
	dst = appendLiteral(append(dst, guardReadOnlyHead...), bare)
	if tokenless {
		dst = append(dst, ",true"...)
	} else {
		dst = append(dst, ",false"...)
	}
	return append(dst, guardReadOnlyTail...)
}

func appendLiteral(dst []byte, s string) []byte {
	return append(append(append(dst, '\''), s...), '\'')
}

// spliceable: no byte that could end a literal or change its meaning, and none beyond printable ASCII. Every text that
// Parse accepts is, unless it has a tab.
func spliceable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\'' || c == '\\' {
			return false
		}
	}
	return true
}
