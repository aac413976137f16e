package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

const tokenlessSchema = `
CREATE TABLE free (v int); INSERT INTO free VALUES (1); CREATE SEQUENCE seq;
CREATE FUNCTION adds() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO free VALUES (9); RETURN 1; END';
CREATE FUNCTION folded() RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM adds(); RETURN 1; END';
CREATE FUNCTION tail(free) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN adds(); END';
CREATE FUNCTION plus(text, int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN adds(); END';
CREATE OPERATOR + (LEFTARG = text, RIGHTARG = int, FUNCTION = plus);
CREATE VIEW seen AS SELECT adds() AS v; CREATE VIEW through AS SELECT * FROM free;
CREATE FUNCTION lifts() RETURNS text LANGUAGE sql AS
  $$ SELECT set_config('default_transaction_read_only', 'off', false) $$;
CREATE PROCEDURE committing() LANGUAGE plpgsql AS $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; INSERT INTO free VALUES (9); END $$;
GRANT ALL ON ALL TABLES IN SCHEMA public TO teller; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO teller;`

// tokenlessProxy is a proxy with the policy and one fence on acct; rows tells how many rows the unfenced table has.
func tokenlessProxy(t *testing.T, policy string) (db string, p *proxytest.Proxy, rows func() int64) {
	t.Helper()
	c := pgtest.Shared(t)
	db = fenced(t, c)
	c.Exec(t, db, tokenlessSchema)
	direct := c.Connect(t, db, "postgres")
	p = proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct", "--tokenless", policy, "--catalog", "off") // which knows what bump and pay write
	return db, p, func() int64 { return number(t, direct, "SELECT count(*) + (SELECT sum(bal) FROM acct) FROM free") }
}

// pipelined sends statements in the extended protocol with one Sync behind them and returns the SQLSTATE of the first
// error.
func pipelined(conn *pgx.Conn, sqls ...string) string {
	var messages []pgproto3.FrontendMessage
	for _, sql := range sqls {
		messages = append(messages, &pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{})
	}
	return exchange(conn, append(messages, &pgproto3.Sync{})...)
}

// exchange sends messages and reads up to ReadyForQuery; it returns the SQLSTATE of the first error.
func exchange(conn *pgx.Conn, messages ...pgproto3.FrontendMessage) (sqlstate string) {
	f := conn.PgConn().Frontend()
	for _, m := range messages {
		f.Send(m)
	}
	if err := f.Flush(); err != nil {
		return err.Error()
	}
	for {
		switch m, err := f.Receive(); m := m.(type) {
		case nil:
			return err.Error()
		case *pgproto3.ErrorResponse:
			if sqlstate == "" {
				sqlstate = m.Code
			}
		case *pgproto3.ReadyForQuery:
			return sqlstate
		}
	}
}

func inBlock(conn *pgx.Conn, sql string) string {
	run(conn, "BEGIN")
	defer run(conn, "ROLLBACK")
	return run(conn, sql)
}

// prepared runs a statement that is prepared in a segment of its own.
func preparedRun(conn *pgx.Conn, sql string) string {
	pg, ctx := conn.PgConn(), context.Background()
	if _, err := pg.Prepare(ctx, "prep", sql, nil); err != nil {
		return code(err)
	}
	defer pg.Deallocate(ctx, "prep")
	_, err := pg.ExecPrepared(ctx, "prep", nil, nil, nil).Close()
	return code(err)
}

var ways = []struct {
	name string
	run  func(*pgx.Conn, string) string
}{
	{"simple", run},
	{"string", func(c *pgx.Conn, sql string) string { return run(c, "SELECT 1; "+sql+"; SELECT 2") }},
	{"block", inBlock},
	{"extended", func(c *pgx.Conn, sql string) string { return code(extended(c, sql)) }},
	{"pipelined", func(c *pgx.Conn, sql string) string { return pipelined(c, "SELECT 1", sql, "SELECT 2") }},
	{"prepared", preparedRun},
}

// hiddenWrites run code that the text does not show, or that it does not show to write.
var hiddenWrites = []string{
	"SELECT adds()", "SELECT folded()", "EXPLAIN SELECT folded()", "SELECT * FROM free WHERE v = adds()",
	"COPY (SELECT adds()) TO STDOUT", "CREATE TEMP TABLE x AS SELECT adds()", "SELECT bump()",
}

// invisibleWrites look like plain reads.
var invisibleWrites = []string{"SELECT v FROM seen", "TABLE seen", "SELECT f.tail FROM free f", "EXPLAIN ANALYZE SELECT * FROM seen", "COPY (TABLE seen) TO STDOUT", "SELECT 'a'::text + 1"}

var visibleWrites = []string{
	"INSERT INTO free VALUES (2)", "UPDATE free SET v = 3", "DELETE FROM free", "TRUNCATE free", "INSERT INTO through VALUES (2)",
	"WITH x AS (DELETE FROM free RETURNING v) SELECT * FROM x", "MERGE INTO free f USING (SELECT 1) s(v) ON true WHEN MATCHED THEN DELETE",
	"CREATE TABLE fresh (v int)", "SELECT 1 AS v INTO fresh", "DROP VIEW seen", "SELECT nextval('seq')", "SELECT setval('seq', 9)",
	"SELECT * FROM free FOR UPDATE", "EXPLAIN ANALYZE INSERT INTO free VALUES (2)", "COMMENT ON TABLE free IS 'x'",
}

func each(t *testing.T, conn *pgx.Conn, sqls []string, want string) {
	t.Helper()
	for _, sql := range sqls {
		for _, p := range ways {
			if got := p.run(conn, sql); got != want {
				t.Errorf("%s, %s: SQLSTATE %q, want %q", sql, p.name, got, want)
			}
		}
	}
}

var plainReads = []string{"SELECT * FROM free", "SELECT count(*) FROM acct", "SHOW ALL", "EXPLAIN SELECT 1", "COPY free TO STDOUT", "VALUES (1)"}

// TestTokenlessReadOnly: whatever a session without a token says, PostgreSQL takes it for read-only.
func TestTokenlessReadOnly(t *testing.T) {
	db, p, rows := tokenlessProxy(t, "readonly")
	conn := p.Connect(t, db, "postgres", "")
	before := rows()
	for _, sql := range visibleWrites {
		want := "25006"
		if !inGrammarOf(pgtest.Shared(t).Major, sql) {
			want = "42601" // not the guard's error, though it stands in front
		}
		each(t, conn, []string{sql}, want)
	}
	each(t, conn, hiddenWrites, "25006")
	each(t, conn, invisibleWrites, "25006")
	each(t, conn, plainReads, "")
	each(t, conn, []string{"UPDATE acct SET bal = 7"}, "ZF002") // the fence has the first word
	if _, err := conn.PgConn().CopyFrom(context.Background(), strings.NewReader("5\n"), "COPY free FROM STDIN"); code(err) != "25006" {
		t.Errorf("COPY FROM STDIN: %v, want 25006", err)
	}
	for _, sql := range []string{"DO $$ BEGIN PERFORM adds(); END $$", "CALL pay()"} {
		want(t, conn, sql, "25006")
		if got := inBlock(conn, sql); got != "25006" {
			t.Errorf("%s, in a block: %q", sql, got)
		}
		if got := code(extended(conn, sql)); got != "ZF002" {
			t.Errorf("%s, extended: %q, want ZF002", sql, got)
		}
	}
	want(t, conn, "DECLARE c CURSOR WITH HOLD FOR SELECT adds()", "25006")
	want(t, conn, "PREPARE w AS INSERT INTO free VALUES (8)", "")
	want(t, conn, "EXECUTE w", "25006")
	if got := code(extended(conn, "EXECUTE w")); got != "25006" {
		t.Errorf("EXECUTE, extended: %q", got)
	}
	if after := rows(); after != before {
		t.Errorf("%d became %d", before, after)
	}
}

func connectWith(t *testing.T, p *proxytest.Proxy, db, options string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(p.DSN(db, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if options != "" {
		config.RuntimeParams["options"] = options
	}
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// lifts are what would make a session or its next transaction writable.
var lifts = []string{
	"SET default_transaction_read_only = off", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "RESET default_transaction_read_only",
	"RESET ALL", "SELECT set_config('default_transaction_read_only', 'off', false)", "SELECT set_config('default_transaction_' || 'read_only', 'off', false)",
	"UPDATE pg_settings SET setting = 'off' WHERE name = 'default_transaction_read_only'", "SELECT lifts()", "DO $$ BEGIN SET default_transaction_read_only = off; END $$",
	"SET transaction_read_only = off", "SELECT set_config('transaction_read_only', 'off', false)", "DISCARD ALL", "SET LOCAL fence.token = ''", "SET fence.token = ' '",
	"SET fence.token TO DEFAULT", "SELECT set_config('fence.' || 'token', ' ', false)",
	"PREPARE l AS SELECT set_config('default_transaction_read_only', 'off', false)", "EXECUTE l",
}

// TestTokenlessReadOnlyCannotBeLifted: no setting makes it writable, in the same transaction or a later one.
func TestTokenlessReadOnlyCannotBeLifted(t *testing.T) {
	db, p, rows := tokenlessProxy(t, "readonly")
	before := rows()
	const write = "INSERT INTO free VALUES (4)"
	for _, options := range []string{"", "-c default_transaction_read_only=off", "-c transaction_read_only=off"} {
		conn := connectWith(t, p, db, options)
		for _, lift := range lifts {
			if options != "" {
				break
			}
			for _, way := range ways {
				way.run(conn, lift)
				for _, w := range []string{write, invisibleWrites[0]} {
					want(t, conn, w, "25006")
					if got := code(extended(conn, w)); got != "25006" {
						t.Errorf("%s (%s), then %s in the extended protocol: %q", lift, way.name, w, got)
					}
				}
			}
			if got := pipelined(conn, lift, write); got == "" {
				t.Errorf("%s, then %s in a pipeline: it passed", lift, write)
			}
			if got := run(conn, lift+"; "+write); got == "" {
				t.Errorf("%s; %s: it passed", lift, write)
			}
			run(conn, "ROLLBACK")
		}
		for _, begin := range []string{"BEGIN READ WRITE", "START TRANSACTION READ WRITE", "BEGIN; SET TRANSACTION READ WRITE", "BEGIN; SET LOCAL transaction_read_only = off",
			"BEGIN; SELECT set_config('transaction_read_only', 'off', true)", "BEGIN; SAVEPOINT a; SELECT 1; RELEASE a", "BEGIN; SAVEPOINT a; SELECT 1; ROLLBACK TO a",
			"BEGIN; SAVEPOINT a; SELECT adds()", "BEGIN; SELECT 1; COMMIT AND CHAIN"} {
			for _, w := range []string{write, invisibleWrites[0]} {
				run(conn, begin)
				run(conn, "SAVEPOINT b")
				if got := run(conn, w); got != "25006" && got != "25P02" {
					t.Errorf("%s, then %s: %q", begin, w, got)
				}
				run(conn, "ROLLBACK")
				run(conn, begin)
				if got := code(extended(conn, w)); got != "25006" && got != "25P02" {
					t.Errorf("%s, then %s in the extended protocol: %q", begin, w, got)
				}
				run(conn, "ROLLBACK")
			}
		}
	}
	if after := rows(); after != before {
		t.Errorf("%d became %d", before, after)
	}
}

// resets take transaction_read_only back to its default, which PostgreSQL does not check before version 16.
var resets = []string{
	"BEGIN|EXPLAIN SELECT later()|RESET TRANSACTION_READ_ONLY|SELECT adds()|COMMIT",
	"BEGIN|EXPLAIN SELECT later()|SET transaction_read_only TO DEFAULT|SELECT adds()|COMMIT",
	"BEGIN|EXPLAIN SELECT later()|SET LOCAL transaction_read_only TO DEFAULT|SELECT adds()|COMMIT",
	"BEGIN|EXPLAIN SELECT later()|SELECT set_config('transaction_read_only', NULL, false)|SELECT adds()|COMMIT",
	"BEGIN|EXPLAIN SELECT later()|PREPARE r AS SELECT set_config('transaction_read_only', NULL, true), 1|EXECUTE r|SELECT adds()|COMMIT",
	"BEGIN|EXPLAIN SELECT later()|SELECT set_config('transaction_' || 'read_only', NULLIF('', ''), true), 1|SELECT adds()|COMMIT",
	"BEGIN|EXPLAIN SELECT later()|UPDATE pg_settings SET setting = NULL WHERE name = 'transaction_read_only'|SELECT adds()|COMMIT",
	"SELECT set_config('transaction_read_only', NULL, true), adds()", "SELECT set_config(n, NULL, true), adds() FROM (VALUES ('transaction_read_only')) v(n)",
}

// atCommit leave something to be run at COMMIT, and end the read-only subtransaction in which they did.
var atCommit = []string{
	"BEGIN|SAVEPOINT s|DECLARE c CURSOR WITH HOLD FOR SELECT adds()|RELEASE s|COMMIT",
	"BEGIN|SAVEPOINT s|SAVEPOINT t|DECLARE c CURSOR WITH HOLD FOR SELECT adds()|RELEASE s|COMMIT AND CHAIN|COMMIT",
	"BEGIN|SAVEPOINT s|PREPARE h AS SELECT adds()|DECLARE c CURSOR WITH HOLD FOR SELECT adds()|RELEASE s|SELECT 1|COMMIT",
}

// TestTokenlessReadOnlyToTheEnd: a transaction that was made read-only stays so up to what it does at COMMIT.
func TestTokenlessReadOnlyToTheEnd(t *testing.T) {
	for _, policy := range []string{"readonly", "opaque-readonly"} {
		db, p, rows := tokenlessProxy(t, policy)
		pgtest.Shared(t).Exec(t, db, "CREATE FUNCTION later() RETURNS int LANGUAGE sql AS 'SELECT 1'")
		conn := p.Connect(t, db, user, "")
		before := rows()
		for _, script := range append(resets, atCommit...) {
			list := strings.Split(script, "|")
			for how, play := range map[string]func(){
				"simple": func() {
					for _, sql := range list {
						run(conn, sql)
					}
				},
				"extended": func() {
					for _, sql := range list {
						extended(conn, sql)
					}
				},
				"string":    func() { run(conn, strings.Join(list, "; ")) },
				"pipelined": func() { pipelined(conn, list...) },
			} {
				play()
				run(conn, "ROLLBACK")
				run(conn, "DISCARD ALL")
				if after := rows(); after != before {
					t.Errorf("%s: %s, %s: %d became %d", policy, script, how, before, after)
					before = after
				}
			}
		}
	}
}

// TestTokenlessFailedTransactionEnds: the guard in front of COMMIT does not keep a failed transaction from its end.
func TestTokenlessFailedTransactionEnds(t *testing.T) {
	db, p, _ := tokenlessProxy(t, "readonly")
	conn := p.Connect(t, db, user, "")
	begin := func() {
		for _, sql := range []string{"BEGIN", "SAVEPOINT s", "SELECT 1", "RELEASE s"} {
			must(t, conn, sql)
		}
	}
	begin()
	want(t, conn, "INSERT INTO free VALUES (4)", "25006")
	want(t, conn, "COMMIT", "")
	want(t, conn, "SELECT 1", "")
	begin()
	insert, commit := &pgproto3.Query{String: "INSERT INTO free VALUES (4)"}, &pgproto3.Query{String: "COMMIT"}
	if got := exchange(conn, insert, commit); got != "25006" {
		t.Errorf("INSERT: %q", got)
	}
	if got := exchange(conn); got != "" {
		t.Errorf("COMMIT that was sent before the error: %q", got)
	}
	want(t, conn, "SELECT 1", "")
	begin()
	if got := exchange(conn, insert, &pgproto3.Parse{Query: "COMMIT"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}); got != "25006" {
		t.Errorf("INSERT: %q", got)
	}
	if got := exchange(conn); got != "" {
		t.Errorf("COMMIT that was sent before the error, extended: %q", got)
	}
	want(t, conn, "SELECT 1", "")
	begin()
	want(t, conn, "COMMIT", "")
}

// TestTokenlessReadOnlyAfterRelease: what a savepoint has made read-only is writable again when it is released, and has
// to be made so once more.
func TestTokenlessReadOnlyAfterRelease(t *testing.T) {
	db, p, rows := tokenlessProxy(t, "readonly")
	conn := p.Connect(t, db, user, "")
	before := rows()
	for _, sql := range []string{"BEGIN", "SAVEPOINT a", "SELECT 1", "RELEASE a"} {
		if err := extended(conn, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if got := code(extended(conn, "SELECT v FROM seen")); got != "25006" {
		t.Errorf("behind RELEASE: %q", got)
	}
	run(conn, "COMMIT")
	if after := rows(); after != before {
		t.Errorf("%d became %d", before, after)
	}
}

// TestTokenlessReadOnlyAtBind: the planner runs functions that claim to be immutable, at Bind, and a client need not execute
// what it has bound.
func TestTokenlessReadOnlyAtBind(t *testing.T) {
	for _, policy := range []string{"readonly", "opaque-readonly"} {
		db, p, rows := tokenlessProxy(t, policy)
		conn := p.Connect(t, db, user, "")
		before := rows()
		pg, ctx := conn.PgConn(), context.Background()
		if _, err := pg.Prepare(ctx, "f", "SELECT folded()", nil); err != nil {
			t.Fatal(err)
		}
		failed := exchange(conn, &pgproto3.Bind{PreparedStatement: "f"}, &pgproto3.Sync{})
		if failed != "25006" || rows() != before {
			t.Errorf("%s: a Bind alone: SQLSTATE %q, %d rows of %d", policy, failed, rows(), before)
		}
	}
}

// TestTokenlessNeedsSomeToken: what a READ ONLY transaction lets through, and what no guard can stand in front of.
func TestTokenlessNeedsSomeToken(t *testing.T) {
	db, p, _ := tokenlessProxy(t, "readonly")
	without, with := p.Connect(t, db, "postgres", ""), p.Connect(t, db, "postgres", text(nextToken()))
	for _, sql := range []string{
		"COPY free TO PROGRAM 'cat >/dev/null'", "COPY free FROM PROGRAM 'echo 5'", "COPY free TO '/dev/null'", "SELECT lo_create(0)", "SELECT lo_from_bytea(0, 'x')",
		"SELECT pg_logical_emit_message(true, 'a', 'b')", "SELECT pg_reload_conf()", "VACUUM free", "CREATE INDEX CONCURRENTLY ON free (v)",
		"CREATE DATABASE other", "COMMIT PREPARED 'x'",
	} {
		want(t, without, sql, "ZF002")
		if got := code(extended(without, sql)); got != "ZF002" {
			t.Errorf("%s, extended: %q, want ZF002", sql, got)
		}
	}
	for _, sql := range []string{"SELECT dblink_exec('dbname=x', 'DELETE FROM free')", "SELECT pg_file_write('x', 'y', false)"} {
		if got := run(without, sql); got != "ZF002" && got != "42883" {
			t.Errorf("%s: %q", sql, got)
		}
	}
	for _, sql := range []string{"VACUUM free", "COPY free TO '/dev/null'", "SELECT lo_create(0)"} {
		want(t, with, sql, "")
		want(t, with, "INSERT INTO free VALUES (2)", "")
	}
	want(t, without, "ROLLBACK PREPARED 'x'", "42704")
}

// TestTokenlessTokenPresentedLater: a session writes as soon as it has a token, and no longer.
func TestTokenlessTokenPresentedLater(t *testing.T) {
	for _, policy := range []string{"readonly", "opaque-readonly"} {
		t.Run(policy, func(t *testing.T) {
			db, p, _ := tokenlessProxy(t, policy)
			conn := p.Connect(t, db, user, "")
			opaque := func(what, sqlstate string) {
				t.Helper()
				want(t, conn, "SELECT adds()", sqlstate)
				if got := code(extended(conn, "SELECT adds()")); got != sqlstate {
					t.Errorf("%s, extended: %q, want %q", what, got, sqlstate)
				}
			}
			opaque("at first", "25006")
			want(t, conn, "SET fence.token = '"+text(nextToken())+"'", "")
			opaque("with a token", "")
			want(t, conn, "UPDATE acct SET bal = 1", "")
			want(t, conn, "DO $$ BEGIN PERFORM adds(); END $$", "")
			if err := extended(conn, "DO $$ BEGIN PERFORM adds(); END $$"); err != nil {
				t.Error(err)
			}
			for _, drop := range []string{"RESET fence.token", "RESET ALL", "DISCARD ALL", "SET fence.token = ''", "SELECT set_config('fence.token', '', false)",
				"SELECT set_config('fence.' || 'token', '', false)"} {
				want(t, conn, drop, "")
				opaque(drop, "25006")
				want(t, conn, "SELECT set_config('fence.token', '"+text(nextToken())+"', false)", "")
				opaque("presented again", "")
			}
			want(t, conn, "RESET fence.token", "")
			for _, present := range []string{"SET LOCAL fence.token = '%s'", "SELECT set_config('fence.token', '%s', true)"} {
				must(t, conn, "BEGIN")
				must(t, conn, strings.Replace(present, "%s", text(nextToken()), 1))
				want(t, conn, "SELECT adds()", "")
				want(t, conn, "UPDATE acct SET bal = 2", "")
				want(t, conn, "INSERT INTO free VALUES (2)", "")
				must(t, conn, "COMMIT")
				opaque("after SET LOCAL", "25006")
			}
			// a token that nobody has announced is none
			want(t, conn, "SELECT set_config('fence.' || 'token', '999999', false)", "")
			opaque("a token unseen", "ZF006")
		})
	}
}

// TestTokenlessOpaqueReadOnly: only what cannot be classified is read-only.
func TestTokenlessOpaqueReadOnly(t *testing.T) {
	db, p, rows := tokenlessProxy(t, "opaque-readonly")
	conn := p.Connect(t, db, "postgres", "")
	each(t, conn, []string{"INSERT INTO free VALUES (2)"}, "") // today's behaviour
	before := rows()
	each(t, conn, hiddenWrites, "25006")
	each(t, conn, plainReads, "")
	want(t, conn, "DO $$ BEGIN PERFORM adds(); END $$", "25006")
	want(t, conn, "DO $$ BEGIN UPDATE acct SET bal = 8; END $$", "25006")
	want(t, conn, "CALL pay()", "25006")
	want(t, conn, "CALL committing()", "2D000")
	for _, sql := range []string{"CALL committing()", "DO $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; UPDATE acct SET bal = 8; END $$"} {
		if got := code(extended(conn, sql)); got != "ZF002" {
			t.Errorf("%s, extended: %q", sql, got)
		}
		if got := pipelined(conn, "SELECT 1", sql); got != "ZF002" {
			t.Errorf("%s, pipelined: %q", sql, got)
		}
		if got := preparedRun(conn, sql); got != "ZF002" {
			t.Errorf("%s, prepared: %q", sql, got)
		}
	}
	want(t, conn, "COPY free TO PROGRAM 'cat >/dev/null'", "ZF002")
	// what an opaque statement has left behind
	want(t, conn, "DO $$ BEGIN EXECUTE 'PREPARE left_here AS UPDATE acct SET bal = 8'; END $$", "")
	want(t, conn, "EXECUTE left_here", "25006")
	if got := code(extended(conn, "EXECUTE left_here")); got != "25006" {
		t.Errorf("EXECUTE, extended: %q", got)
	}
	if _, err := conn.PgConn().ExecPrepared(context.Background(), "left_here", nil, nil, nil).Close(); code(err) != "25006" {
		t.Errorf("Bind: %v", err)
	}
	if after := rows(); after != before {
		t.Errorf("%d became %d", before, after)
	}
	want(t, conn, "VACUUM free", "")
	must(t, conn, "BEGIN; INSERT INTO free VALUES (2)")
	want(t, conn, "SELECT length('x')", "")
	want(t, conn, "INSERT INTO free VALUES (2)", "")
	must(t, conn, "COMMIT")
}
