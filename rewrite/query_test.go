package rewrite

import "testing"

var queryTests = []tableTest{
	// reads
	{`SELECT 1`, "none plain"},
	{`select * from accounts`, "none plain"},
	{`TABLE accounts`, "none plain"},
	{`VALUES (1), (2)`, "none plain"},
	{`((SELECT 1))`, "none plain"},
	{`WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 9) SELECT sum(n) FROM t`, "none plain"},
	{`SELECT count(*) FILTER (WHERE a > 1), row_number() OVER (PARTITION BY b ORDER BY c) FROM accounts GROUP BY GROUPING SETS ((a), ())`, "none plain"},
	{`SELECT extract(year FROM now()), substring('abc' FROM 2), trim(both 'x' from 'xax'), position('a' in 'ba'), 'x' LIKE 'y' ESCAPE '!', now() AT TIME ZONE 'UTC', CURRENT_USER`, "none plain"},
	{`SELECT json_build_object('a', 1) -> 'a', JSON_OBJECT('a' VALUE 1), x.* FROM JSON_TABLE('[]', '$[*]' COLUMNS (a int PATH '$.a')) x`, "none plain"},
	{`SELECT XMLELEMENT(NAME a, 1), COALESCE(NULL, 1), GREATEST(1, 2), NULLIF(1, 2), CASE WHEN true THEN 1 ELSE 2 END, ARRAY[1, 2], ROW(1, 2)`, "none plain"},
	{`SELECT * FROM accounts TABLESAMPLE system (10)`, "none plain"},
	{`SELECT * FROM generate_series(1, 3) WITH ORDINALITY, LATERAL (SELECT 1) x, unnest(ARRAY[1])`, "none plain"},
	{`SELECT a::int, CAST(b AS text), c COLLATE "C" FROM t ORDER BY a USING <`, "none plain"},
	{`SELECT * FROM fence.mark`, "none plain"},
	{`SELECT 1 -- accounts`, "none plain"},
	{`SELECT 'UPDATE accounts SET a = 1'`, "none plain"},

	// row locks
	{`SELECT * FROM accounts FOR UPDATE`, "lock plain"},
	{`SELECT * FROM accounts FOR NO KEY UPDATE SKIP LOCKED`, "lock plain"},
	{`SELECT * FROM (SELECT * FROM accounts FOR SHARE) x`, "lock plain"},
	{`SELECT * FROM fence.mark FOR UPDATE`, "lock refuse=ZF004"},

	// writes
	{`INSERT INTO accounts VALUES (1)`, "write billing"},
	{`INSERT INTO accounts (a) SELECT 1`, "write billing"},
	{`INSERT INTO accounts DEFAULT VALUES RETURNING id`, "write billing"},
	{`INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = excluded.a WHERE t.a > 1`, "write plain"},
	{`INSERT INTO t SELECT * FROM accounts`, "write plain"},
	{`UPDATE accounts SET a = 1`, "write billing"},
	{`UPDATE ONLY accounts SET a = 1`, "write billing"},
	{`UPDATE accounts * SET a = 1`, "write billing"},
	{`UPDATE accounts AS t SET a = 1 FROM app.jobs j WHERE j.id = t.id`, "write billing"},
	{`UPDATE t accounts SET a = 1`, "write plain"},
	{`UPDATE t SET a = 1 FROM accounts`, "write plain"},
	{`UPDATE accounts SET a = 1 WHERE CURRENT OF c`, "write billing"},
	{`DELETE FROM accounts`, "write billing"},
	{`DELETE FROM t USING accounts WHERE t.id = accounts.id`, "write plain"},
	{`MERGE INTO accounts a USING t ON a.id = t.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (1)`, "write billing"},
	{`MERGE INTO t USING accounts a ON a.id = t.id WHEN MATCHED THEN DO NOTHING`, "write plain"},
	{`UPDATE accounts SET a = old_a FROM t RETURNING old.a`, "write billing"},
	{`TRUNCATE accounts`, "write billing"},
	{`TRUNCATE TABLE ONLY t, accounts RESTART IDENTITY`, "write billing"},
	{`TRUNCATE t`, "write plain"},
	{`TRUNCATE t CASCADE`, "opaque billing+jobs"},
	{`UPDATE app.jobs SET a = 1; UPDATE accounts SET a = 1; DELETE FROM t`, "write jobs; write billing; write"},

	// at any depth
	{`WITH x AS (DELETE FROM accounts RETURNING *) SELECT * FROM x`, "write billing"},
	{`WITH x AS (WITH y AS (UPDATE app.jobs SET a = 1 RETURNING 1) SELECT * FROM y) INSERT INTO accounts SELECT * FROM x`, "write billing+jobs"},
	{`COPY (DELETE FROM accounts RETURNING *) TO STDOUT`, "[copy out] write billing"},
	{`CREATE TABLE t AS WITH x AS (DELETE FROM accounts RETURNING *) SELECT * FROM x`, "write billing"},

	// I5: PostgreSQL never takes the target of a DML statement for a CTE
	{`WITH accounts AS (SELECT 1 AS a) SELECT * FROM accounts`, "none plain"},
	{`WITH accounts AS (SELECT 1 AS a) UPDATE accounts SET a = 2`, "write billing"},
	{`WITH accounts AS (SELECT 1 AS a) INSERT INTO accounts SELECT * FROM accounts`, "write billing"},

	// new tables
	{`SELECT * INTO accounts FROM t`, "write billing"},
	{`SELECT * INTO TEMP accounts FROM t`, "write plain"},
	{`CREATE TABLE accounts AS SELECT 1`, "write billing"},
	{`CREATE TEMPORARY TABLE accounts AS SELECT 1`, "write plain"},
	{`CREATE TABLE t AS TABLE accounts WITH NO DATA`, "write plain"},
	{`CREATE MATERIALIZED VIEW accounts AS SELECT 1`, "write billing"},
	{`REFRESH MATERIALIZED VIEW CONCURRENTLY accounts`, "opaque billing"},
	{`CREATE TABLE t AS EXECUTE p(1)`, "[execute] write name=p"},

	// COPY
	{`COPY accounts FROM STDIN`, "[copy in] write billing"},
	{`COPY accounts (a, b) FROM STDIN WITH (FORMAT csv) WHERE a > 1`, "[copy in] write billing"},
	{`COPY t FROM STDIN`, "[copy in] write"},
	{`COPY accounts FROM '/nowhere/x'`, "write billing"},
	{`COPY accounts FROM PROGRAM 'cat'`, "opaque billing"},
	{`COPY accounts FROM '/nowhere/a name that is longer than the sixty four bytes that are parsed as they are'`, "write billing"},
	{`COPY t FROM ''`, "write plain"},
	{`COPY t FROM $a$$a$`, "write plain"},
	{`COPY accounts TO STDOUT`, "[copy out] none plain"},
	{`COPY accounts TO '/nowhere/x'`, "write plain"},
	{`COPY accounts TO PROGRAM 'cat'`, "opaque"},
	{`COPY (SELECT f()) TO STDOUT`, "[copy out] opaque"},
	{`COPY fence.mark FROM STDIN`, "[copy in] write refuse=ZF004"},

	// EXPLAIN
	{`EXPLAIN SELECT * FROM accounts`, "none plain"},
	{`EXPLAIN UPDATE accounts SET a = 1`, "none plain"},
	{`EXPLAIN (COSTS off, ANALYZE false) UPDATE accounts SET a = 1`, "none plain"},
	{`EXPLAIN (ANALYZE 0) UPDATE accounts SET a = 1`, "none plain"},
	{`EXPLAIN (ANALYZE 'off') UPDATE accounts SET a = 1`, "none plain"},
	{`EXPLAIN (ANALYZE 'on') UPDATE accounts SET a = 1`, "write billing"},
	{`EXPLAIN (ANALYZE 1) UPDATE accounts SET a = 1`, "write billing"},
	{`EXPLAIN ANALYZE UPDATE accounts SET a = 1`, "write billing"},
	{`EXPLAIN (ANALYZE, BUFFERS) DELETE FROM accounts`, "write billing"},
	{`EXPLAIN ANALYZE SELECT 1`, "none plain"},
	{`EXPLAIN SELECT f(1)`, "opaque"},
	{`EXPLAIN ANALYZE SELECT f(1)`, "opaque"},
	{`EXPLAIN ANALYZE EXECUTE p`, "[execute] none name=p"},
	{`EXPLAIN EXECUTE p`, "[execute] none name=p"},
	{`EXPLAIN ANALYZE CREATE TABLE accounts AS SELECT 1`, "write billing"},
	{`EXPLAIN CREATE TABLE accounts AS SELECT 1`, "none plain"},
	{`EXPLAIN ANALYZE DECLARE c CURSOR FOR SELECT 1`, "none plain"},
	{`EXPLAIN ANALYZE SELECT set_config('fence.token', '1', false)`, "none may-change-token"},

	// code of the application
	{`DO $$ BEGIN UPDATE accounts SET a = 1; END $$`, "[do] opaque"},
	{`CALL pay(1)`, "[call] opaque"},
	{`CALL app.total(1)`, "[call] none"},
	{`UPDATE accounts SET a = f(b)`, "opaque billing"},
	{`UPDATE t SET a = lower(b)`, "write plain"},

	// catalogs redefine anything
	{`UPDATE pg_class SET relname = 'x'`, "opaque"},
	{`DELETE FROM pg_catalog.pg_trigger`, "opaque"},
	{`UPDATE pg_settings SET setting = '7' WHERE name = 'fence.token'`, "write may-change-token changes-lexing"},
	{`UPDATE pg_catalog.pg_settings SET setting = '7'`, "write may-change-token changes-lexing"},

	// LOCK
	{`LOCK accounts`, "write billing"},
	{`LOCK TABLE accounts IN SHARE MODE`, "write billing"},
	{`LOCK TABLE accounts IN SHARE ROW EXCLUSIVE MODE NOWAIT`, "write billing"},
	{`LOCK TABLE accounts IN SHARE UPDATE EXCLUSIVE MODE`, "lock plain"},
	{`LOCK TABLE accounts IN ROW EXCLUSIVE MODE`, "lock plain"},
	{`LOCK TABLE t`, "lock plain"},
	{`LOCK TABLE fence.mark IN ACCESS SHARE MODE`, "lock refuse=ZF004"},

	// schema fence
	{`INSERT INTO fence.mark VALUES (1)`, "write refuse=ZF004"},
	{`UPDATE "fence".mark SET token = 1`, "write refuse=ZF004"},
	{`WITH x AS (DELETE FROM fence.mark RETURNING 1) SELECT 1`, "write refuse=ZF004"},
	{`TRUNCATE fence.mark`, "write refuse=ZF004"},
	{`SELECT fence.guard(ARRAY['billing'], '')`, "none plain"},
	{`SELECT fence.raise('billing', 0, 9)`, "opaque"},

	// empty
	{``, "[empty] none plain"},
	{` ;; /* x */ ; -- y`, "[empty] none plain"},
	{`;SELECT 1;;SELECT 2;`, "none; none plain"},
}

func TestI1QueriesAreJudged(t *testing.T) { runTable(t, fencesByName, queryTests) }
