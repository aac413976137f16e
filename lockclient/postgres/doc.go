// Package postgres takes locks from the fenced database itself: no other server, and no moment between having the lock
// and being protected by it. It opens URLs of the schemes postgres and postgresql.
//
// The lease table (mode=lease, the default) grants a lock and makes its token the mark of the fence of the same name in
// one transaction, one round trip. It works through poolers in any mode. Advisory locks (mode=advisory) end with a session,
// take part in an application's own pg_advisory_lock scheme, and know readers; the token comes from the same counter, and
// is raised in the same session. A transaction pooler in between would hand the session to others, so it is refused.
//
// Both need the schema that "fenceproxy init" installs, a role that is a member of fence_control, and, to end sessions of
// an earlier holder that keep a takeover waiting, pg_signal_backend and pg_read_all_stats.
//
// All times are the database's: its clock decides when a lease ends, and the client counts only how long its own requests
// took. Tokens follow the WAL's timeline: after a promotion all holders must acquire again, and the database refuses the
// tokens of before, also when the newest of them were lost with the old primary.
package postgres
