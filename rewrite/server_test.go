package rewrite

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const serverSchema = `
	CREATE SCHEMA app; CREATE SCHEMA fence;
	CREATE TABLE accounts (id int PRIMARY KEY, a int, b int, c text DEFAULT '');
	CREATE TABLE app.jobs (id int PRIMARY KEY, a int);
	CREATE TABLE t (id int PRIMARY KEY, a int, b text, c text, "values" int);
	CREATE TABLE u (a int, b int, c int);
	CREATE TABLE fence.mark (name text, token int);
	INSERT INTO accounts SELECT i, i, i FROM generate_series(1, 5) i;
	INSERT INTO t SELECT i, i, 'x', 'y' FROM generate_series(1, 5) i;
	CREATE SEQUENCE s; SELECT nextval('s');
	CREATE FUNCTION f() RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM g(); RETURN true; END';
	CREATE FUNCTION g() RETURNS bool LANGUAGE plpgsql AS 'BEGIN INSERT INTO u VALUES (1); RETURN true; END';
	CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM g(); RETURN 1; END';
	CREATE FUNCTION app.total(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
	CREATE FUNCTION app.plus(int, int) RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM g(); RETURN 1; END';
	CREATE OPERATOR app.+ (LEFTARG = int, RIGHTARG = int, FUNCTION = app.plus);
	CREATE PROCEDURE pay(int) LANGUAGE plpgsql AS 'BEGIN PERFORM g(); END';`

func serverConn(t *testing.T) *pgx.Conn {
	t.Helper()
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	c.Exec(t, db, serverSchema)
	return c.Connect(t, db, "postgres")
}

// run executes a text in the simple protocol and returns the SQLSTATE, "" for success.
func run(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	_, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
	var e *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	t.Fatalf("%s: %v", sql, err)
	return ""
}

// readCorpus are reads that run on the schema above, beside those of the tables.
var readCorpus = []string{
	`SELECT sum(a), max(b), min(c), count(DISTINCT a), avg(a), string_agg(c, ','), array_agg(a ORDER BY b) FROM accounts GROUP BY ROLLUP (a, b) HAVING count(*) > 0`,
	`SELECT rank() OVER w, lag(a) OVER w, ntile(2) OVER w FROM accounts WINDOW w AS (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)`,
	`SELECT jsonb_path_query('{"a":[1,2]}', '$.a[*]'), '{"a":1}'::jsonb || '{"b":2}', jsonb_set('{}', '{a}', '1'), to_jsonb(t) FROM t`,
	`SELECT to_tsvector('a b') @@ to_tsquery('a'), similarity.x FROM (SELECT 1 AS x) similarity`,
	`SELECT date_trunc('day', now()), age(now()), now() - interval '1 day', to_char(now(), 'YYYY'), make_date(2024, 1, 1), clock_timestamp()`,
	`SELECT regexp_replace('abc', 'b', 'x'), split_part('a,b', ',', 1), format('%s', 1), md5('x'), encode(sha256('x'), 'hex'), left('abc', 2)`,
	`SELECT pg_backend_pid(), version(), current_database(), txid_current(), pg_current_xact_id(), inet_client_addr(), pg_postmaster_start_time()`,
	`SELECT pg_advisory_lock(1), pg_try_advisory_lock(2), pg_advisory_unlock_all(), pg_advisory_xact_lock(3), pg_notify('x', 'y')`,
	`SELECT currval('s'), lastval(), pg_sequence_last_value('s'), pg_get_serial_sequence('accounts', 'id')`, `SELECT setseed(0.5), random(), gen_random_uuid()`,
	`SELECT obj_description(oid), pg_get_viewdef(oid), pg_table_size(oid), pg_relation_filepath(oid), pg_total_relation_size(oid) FROM pg_class WHERE relname = 'accounts'`,
	`SELECT * FROM pg_stat_activity`, `SELECT * FROM pg_locks`, `SELECT * FROM information_schema.columns`, `SELECT * FROM pg_settings`, `SELECT * FROM pg_stat_user_tables`,
	`SELECT has_table_privilege('accounts', 'SELECT'), pg_has_role('postgres', 'USAGE'), to_regclass('accounts'), pg_typeof(1), pg_column_size(1)`,
	`SELECT * FROM accounts a JOIN t USING (id) LEFT JOIN u ON u.a = a.id CROSS JOIN LATERAL (SELECT a.b) x WHERE a.id IN (SELECT id FROM t) AND EXISTS (SELECT 1 FROM u) IS FALSE`,
	`WITH x AS MATERIALIZED (SELECT * FROM accounts), y AS (SELECT * FROM x) SELECT * FROM y UNION ALL SELECT * FROM x ORDER BY 1 LIMIT 3 OFFSET 1`,
	`SELECT xmlelement(name a, 1), xpath('/a', '<a/>'), xmlagg(x) FROM (SELECT '<a/>'::xml AS x) y`, `SELECT width_bucket(1, 0, 10, 5), gcd(4, 6), power(2, 3), 5 % 3, @ -1, |/ 4, 2 ^ 3`,
	`SELECT int4range(1, 5) && int4range(2, 3), lower(int4range(1, 5)), point(1, 2) <-> point(3, 4), inet '10.0.0.1' << inet '10.0.0.0/8'`, `SELECT lo_get(0)`, `SELECT pg_export_snapshot()`,
	`EXPLAIN SELECT nextval('s')`, `EXPLAIN INSERT INTO accounts VALUES (9)`, `EXPLAIN (ANALYZE) SELECT * FROM accounts`, `EXPLAIN (FORMAT json) DELETE FROM accounts`,
	`COPY accounts TO STDOUT (FORMAT csv)`, `COPY (SELECT lower(c) FROM accounts) TO STDOUT`, `DECLARE c CURSOR FOR SELECT * FROM accounts`, `PREPARE pp AS SELECT * FROM accounts WHERE id = $1`,
	`SET LOCAL work_mem = '1MB'`, `SHOW ALL`, `LISTEN x`, `UNLISTEN *`, `NOTIFY x`, `CLOSE ALL`, `DEALLOCATE ALL`, `SELECT fence.mark.name FROM fence.mark`,
	`SELECT count(*) FROM accounts TABLESAMPLE bernoulli (50) REPEATABLE (1)`, `VALUES (now()), (current_date), (localtimestamp)`, `TABLE ONLY accounts`, `SELECT`,
	`SELECT pg_sleep(0), pg_is_in_recovery(), pg_current_wal_lsn(), pg_walfile_name(pg_current_wal_lsn()), pg_stat_get_numscans(0), pg_stat_clear_snapshot()`,
}

// TestI5NoneIsReadOnly asks the server: what is judged EffectNone must not be refused in a READ ONLY transaction.
func TestI5NoneIsReadOnly(t *testing.T) {
	conn := serverConn(t)
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	texts := append(corpus(), readCorpus...)
	tried, succeeded := 0, 0
	try := func(sql string) {
		an := a.Analyze(&sc, []byte(sql), Settings{})
		if an.Effect != EffectNone || len(an.Statements) != 1 || !scannable(sql) {
			return
		}
		switch an.Statements[0].Kind {
		case KindOther, KindSet, KindSetToken, KindResetToken, KindCopyOut, KindDeclare, KindPrepare, KindDeallocate:
		default:
			return
		}
		run(t, conn, "SELECT nextval('s')")
		run(t, conn, "BEGIN READ ONLY; SET LOCAL statement_timeout = '2s'")
		tried++
		switch code := run(t, conn, sql); code {
		case "":
			succeeded++
		case "25006":
			t.Errorf("%s: refused in a READ ONLY transaction", sql)
		}
		run(t, conn, "ROLLBACK; RESET ALL; DEALLOCATE ALL")
	}
	for _, sql := range texts {
		try(sql)
	}
	t.Logf("%d tried, %d ran to their end", tried, succeeded)
	if succeeded < 100 {
		t.Errorf("only %d of %d ran: the test has lost its power", succeeded, tried)
	}
	tried, succeeded = 0, 0
	r := rand.New(rand.NewPCG(3, uint64(time.Now().UnixNano())))
	for limit := time.Now().Add(max(mutateFor(), 3*time.Second)); time.Now().Before(limit); {
		try(mutate(r, append(texts, writeCorpus...)))
	}
	t.Logf("generated: %d tried, %d ran to their end", tried, succeeded)
	if succeeded < 20 {
		t.Errorf("only %d of %d generated texts ran", succeeded, tried)
	}
	// and the test can tell: these are refused
	for _, sql := range []string{"UPDATE accounts SET a = 1", "SELECT f(1)", "EXPLAIN SELECT f(1)", "SELECT nextval('s')", "SELECT 1 OPERATOR(app.+) 2", "SELECT query_to_xml('select g()', true, true, '')", "CALL pay(1)"} {
		run(t, conn, "BEGIN READ ONLY")
		if code := run(t, conn, sql); code != "25006" {
			t.Errorf("%s: %q, want 25006", sql, code)
		}
		run(t, conn, "ROLLBACK")
		if an := a.Analyze(&sc, []byte(sql), Settings{}); an.Effect == EffectNone {
			t.Errorf("%s is judged %v", sql, an.Effect)
		}
	}
}

// TestServerAgreesWhatRefusesABlock: whatever the server refuses inside a transaction block must be known to.
func TestServerAgreesWhatRefusesABlock(t *testing.T) {
	conn := serverConn(t)
	run(t, conn, "CREATE TABLE p (a int) PARTITION BY LIST (a); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE INDEX p_i ON p (a); CREATE INDEX i ON t (a)")
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	texts := append(corpus(), "CLUSTER p USING p_i", "REINDEX TABLE p", "REINDEX INDEX p_i", "REINDEX SCHEMA public", "REINDEX TABLE CONCURRENTLY t", "REINDEX (CONCURRENTLY) INDEX i",
		"REINDEX SYSTEM CONCURRENTLY x", "VACUUM FULL t", "VACUUM (PARALLEL 0) t", "CREATE INDEX CONCURRENTLY ON t (b)", "CREATE UNIQUE INDEX CONCURRENTLY x ON t (b)", "DROP INDEX CONCURRENTLY i",
		"ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY", "CREATE DATABASE x TEMPLATE template0", "DROP DATABASE x", "ALTER SYSTEM RESET ALL", "CREATE TABLESPACE x LOCATION '/nowhere'",
		"CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p", "DISCARD ALL", "COMMIT PREPARED 'x'", "ROLLBACK PREPARED 'x'", "ALTER DATABASE postgres SET TABLESPACE pg_default")
	seen := 0
	for _, sql := range texts {
		an := a.Analyze(&sc, []byte(sql), Settings{})
		if an.Failure != "" || len(an.Statements) != 1 {
			continue
		}
		k := an.Statements[0].Kind
		if k >= KindBegin && k <= KindPrepareTx || k == KindCopyIn {
			continue
		}
		run(t, conn, "BEGIN")
		if run(t, conn, sql) == "25001" {
			seen++
			if k != KindNoBlock && k != KindDiscard && k != KindCommitPrepared && k != KindRollbackPrepared {
				t.Errorf("%s refuses a transaction block, but is of kind %v", sql, k)
			}
		}
		run(t, conn, "ROLLBACK")
	}
	if seen < 20 {
		t.Errorf("the server refused %d statements only", seen)
	}
}

// TestServerLexesByItsSettings runs the texts that gate_test.go calls unreadable: the server sees a statement in them
// that a reader under other settings does not.
func TestServerLexesByItsSettings(t *testing.T) {
	conn := serverConn(t)
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	for _, tt := range []struct {
		set, sql string
		s        Settings
	}{
		{"SET standard_conforming_strings = off; SET client_encoding = 'UTF8'", `SELECT 'a\', 'b; DELETE FROM accounts WHERE id = 1; --'`, Settings{BackslashQuotes: true}},
		{"SET standard_conforming_strings = on; SET client_encoding = 'SJIS'", "SELECT E'\x95\\'; DELETE FROM accounts WHERE id = 2; --'", Settings{UnsafeEncoding: true}},
		{"SET standard_conforming_strings = on; SET client_encoding = 'GBK'", "SELECT E'\x95\\'; DELETE FROM accounts WHERE id = 3; --'", Settings{UnsafeEncoding: true}},
	} {
		run(t, conn, "BEGIN; SET LOCAL escape_string_warning = off")
		run(t, conn, tt.set)
		code := run(t, conn, tt.sql)
		an := a.Analyze(&sc, []byte(tt.sql), tt.s)
		if code == "" && an.Effect != EffectUnknown {
			t.Errorf("%s: runs, and is judged %v", tt.sql, an.Effect)
		}
		run(t, conn, "RESET client_encoding; RESET standard_conforming_strings")
		var left int
		if err := conn.QueryRow(context.Background(), "SELECT count(*) FROM accounts", pgx.QueryExecModeSimpleProtocol).Scan(&left); err != nil || left != 4 {
			t.Errorf("%s: %d rows left, %v, code %s: the text no longer shows anything", tt.sql, left, err, code)
		}
		run(t, conn, "ROLLBACK")
	}
}

// TestServerNeverWritesToACTE: the target of DML is a table even if a CTE has its name.
func TestServerNeverWritesToACTE(t *testing.T) {
	conn := serverConn(t)
	for _, sql := range []string{
		"WITH accounts AS (SELECT 1 AS id) UPDATE accounts SET a = 99", "WITH accounts AS (SELECT 1 AS id) INSERT INTO accounts VALUES (99)",
		"WITH accounts AS (SELECT 1 AS id) DELETE FROM accounts WHERE id = 5", "WITH accounts AS (SELECT 1 AS id) MERGE INTO accounts x USING t ON x.id = t.id WHEN MATCHED THEN UPDATE SET a = 98",
	} {
		if !hasForm(conn, sql) {
			continue
		}
		tag, err := conn.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
		if err != nil || tag.RowsAffected() == 0 {
			t.Errorf("%s: %v, %v", sql, tag, err)
		}
	}
	var changed int
	if err := conn.QueryRow(context.Background(), "SELECT count(*) FROM accounts WHERE a = 98 OR id = 99").Scan(&changed); err != nil || changed == 0 {
		t.Errorf("%d rows changed, %v", changed, err)
	}
}
