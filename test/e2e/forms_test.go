package e2e

import (
	"slices"
	"strings"
)

// form is one way to write fenced data.
type form struct {
	name   string
	before []string // statements of the same session that make it possible and write nothing fenced
	sql    string
	copy   string // data, for COPY FROM STDIN
	inTx   bool   // only inside of a transaction block
	idle   bool   // changes nothing that formFingerprint sees
	opaque bool   // a session without a token may do it, under opaque: allow
	after  string // takes `before` back
}

// formSetup makes what the forms need beside the tables of schema; run, directly, before a form that is to pass.
const formSetup = `
SET lock_timeout = '10s';
DROP TABLE IF EXISTS acct, victim, made, child, elsewhere CASCADE;
TRUNCATE jobs, log;
INSERT INTO jobs VALUES (1, 'new');
CREATE TABLE acct (id int PRIMARY KEY, bal int NOT NULL);
INSERT INTO acct SELECT g, 0 FROM generate_series(1, 3) g;
CREATE TABLE victim (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE child PARTITION OF victim FOR VALUES FROM (0) TO (1000);
INSERT INTO victim VALUES (1, 0);
ALTER TABLE acct OWNER TO teller; ALTER TABLE victim OWNER TO teller; ALTER TABLE child OWNER TO teller;`

// formFingerprint tells whether anything fenced has changed.
const formFingerprint = `SELECT concat_ws(' ',
	(SELECT string_agg(a::text, ',' ORDER BY a::text) FROM acct a),
	(SELECT string_agg(v::text, ',' ORDER BY v::text) FROM victim v),
	(SELECT string_agg(attname || ':' || atttypid || attisdropped, ',' ORDER BY attrelid, attnum) FROM pg_attribute
		WHERE attrelid IN ('acct'::regclass, to_regclass('victim'), to_regclass('child')) AND attnum > 0),
	(SELECT string_agg(oid || ':' || relfilenode || relispartition, ',' ORDER BY oid) FROM pg_class
		WHERE relname IN ('acct', 'victim', 'child', 'made')),
	(SELECT count(*) FROM pg_prepared_xacts))`

// formFences is the configuration under which every form writes fence billing.
var formFences = []string{"--fence", "billing=acct,public.victim,child,made", "--fence", "jobs=jobs", "--catalog", "off"} // what texts alone tell

var forms = []form{
	{name: "INSERT", sql: "INSERT INTO acct VALUES (10, 1)"},
	{name: "INSERT RETURNING", sql: "INSERT INTO acct VALUES (10, 1) RETURNING id"},
	{name: "INSERT SELECT", sql: "INSERT INTO acct SELECT 10 + id, 1 FROM jobs"},
	{name: "INSERT ON CONFLICT DO NOTHING", sql: "INSERT INTO acct VALUES (10, 1) ON CONFLICT DO NOTHING"},
	{name: "INSERT ON CONFLICT DO UPDATE", sql: "INSERT INTO acct VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET bal = 9"},
	{name: "UPDATE", sql: "UPDATE acct SET bal = 1 WHERE id = 1"},
	{name: "UPDATE RETURNING", sql: "UPDATE acct SET bal = 1 WHERE id = 1 RETURNING bal"},
	{name: "UPDATE FROM", sql: "UPDATE acct SET bal = 1 FROM jobs WHERE jobs.id = acct.id"},
	{name: "UPDATE ONLY with alias", sql: "UPDATE ONLY acct AS a SET bal = 1 WHERE a.id = 1"},
	{name: "UPDATE of no row", sql: "UPDATE acct SET bal = 1 WHERE id = 77", idle: true},
	{name: "UPDATE by schema name", sql: "UPDATE public.acct SET bal = 1 WHERE id = 1"},
	{name: "UPDATE folded and quoted", sql: `UPDATE "public".ACCT SET bal = 1 WHERE id = 1`},
	{name: "UPDATE by a Unicode name", sql: `UPDATE U&"\0061cct" SET bal = 1 WHERE id = 1`},
	{name: "UPDATE of a partitioned table", sql: "UPDATE victim SET v = 1"},
	{name: "UPDATE of a partition", sql: "UPDATE child SET v = 1"},
	{name: "DELETE", sql: "DELETE FROM acct WHERE id = 1"},
	{name: "DELETE USING", sql: "DELETE FROM acct USING jobs WHERE jobs.id = acct.id"},
	{name: "MERGE UPDATE", sql: "MERGE INTO acct USING jobs ON jobs.id = acct.id WHEN MATCHED THEN UPDATE SET bal = 4"},
	{name: "MERGE INSERT", sql: "MERGE INTO acct USING (VALUES (10)) s(id) ON s.id = acct.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0)"},
	{name: "MERGE DELETE", sql: "MERGE INTO acct AS t USING jobs ON jobs.id = t.id WHEN MATCHED THEN DELETE"},
	{name: "COPY FROM STDIN", sql: "COPY acct FROM STDIN", copy: "10\t1\n"},
	{name: "COPY FROM STDIN with columns", sql: "COPY public.acct (id, bal) FROM STDIN (FORMAT csv)", copy: "10,1\n"},
	{name: "TRUNCATE", sql: "TRUNCATE acct"},
	{name: "TRUNCATE of several", sql: "TRUNCATE TABLE log, ONLY acct RESTART IDENTITY"},
	{name: "CTE with UPDATE", sql: "WITH w AS (UPDATE acct SET bal = 1 RETURNING id) SELECT count(*) FROM w"},
	{name: "CTE with INSERT and DELETE", sql: "WITH d AS (DELETE FROM acct WHERE id = 1 RETURNING *) INSERT INTO log SELECT bal FROM d"},
	{name: "CTE two deep", sql: "WITH a AS (WITH b AS (SELECT 1 AS x) SELECT x FROM b), c AS (INSERT INTO acct SELECT 10, x FROM a RETURNING id) SELECT * FROM c"},
	{name: "SELECT INTO", sql: "SELECT 1 AS id INTO made"},
	{name: "CREATE TABLE AS", sql: "CREATE TABLE made AS SELECT 1 AS id"},
	{name: "EXPLAIN ANALYZE", sql: "EXPLAIN ANALYZE UPDATE acct SET bal = 1 WHERE id = 1"},
	{name: "EXPLAIN with options", sql: "EXPLAIN (COSTS OFF, ANALYZE) DELETE FROM acct WHERE id = 1"},
	{name: "EXECUTE", before: []string{"PREPARE pay_one AS UPDATE acct SET bal = 1 WHERE id = 1"}, sql: "EXECUTE pay_one", after: "DEALLOCATE pay_one"},
	{name: "EXECUTE with a parameter", before: []string{"PREPARE pay_n(int) AS UPDATE acct SET bal = $1"}, sql: "EXECUTE pay_n(3)", after: "DEALLOCATE pay_n"},
	{name: "EXPLAIN ANALYZE EXECUTE", before: []string{"PREPARE pay_x AS UPDATE acct SET bal = 1"}, sql: "EXPLAIN ANALYZE EXECUTE pay_x", after: "DEALLOCATE pay_x"},
	{name: "ALTER TABLE", sql: "ALTER TABLE acct ADD COLUMN more int"},
	{name: "ALTER TABLE that rewrites", sql: "ALTER TABLE acct ALTER COLUMN bal TYPE int USING 7"},
	{name: "ALTER TABLE DETACH PARTITION", sql: "ALTER TABLE victim DETACH PARTITION child"},
	{name: "ALTER TABLE RENAME", sql: "ALTER TABLE victim RENAME TO elsewhere"},
	{name: "DROP TABLE", sql: "DROP TABLE victim"},
	{name: "LOCK TABLE", sql: "LOCK TABLE acct IN ACCESS EXCLUSIVE MODE", inTx: true, idle: true},
	{name: "UPDATE WHERE CURRENT OF", before: []string{"DECLARE cur CURSOR FOR SELECT * FROM acct FOR UPDATE", "MOVE 1 FROM cur"}, sql: "UPDATE acct SET bal = 1 WHERE CURRENT OF cur", inTx: true},
	{name: "function that writes", sql: "SELECT bump()", opaque: true},
	{name: "function in a CTE", sql: "WITH w AS MATERIALIZED (SELECT bump() AS x) SELECT x FROM w", opaque: true},
	{name: "function in a FROM clause", sql: "SELECT * FROM bump()", opaque: true},
	{name: "function in INSERT into another table", sql: "INSERT INTO log SELECT bump()", opaque: true},
	{name: "DECLARE CURSOR over a function", sql: "DECLARE cur2 CURSOR WITH HOLD FOR SELECT bump()", opaque: true, after: "CLOSE ALL"},
	{name: "COPY TO of a function", sql: "COPY (SELECT bump()) TO STDOUT", opaque: true},
	{name: "DO", sql: "DO $$ BEGIN UPDATE acct SET bal = 5; END $$", opaque: true},
	{name: "CALL", sql: "CALL pay()", opaque: true},
}

// formsOf leaves out what a version does not know.
func formsOf(major int) []form {
	return slices.DeleteFunc(slices.Clone(forms), func(f form) bool { return !inGrammarOf(major, f.sql) })
}

// inGrammarOf reports whether a version of PostgreSQL can read a statement.
func inGrammarOf(major int, sql string) bool { return major >= 15 || !strings.HasPrefix(sql, "MERGE ") }

// pick returns the forms whose name holds a text.
func pick(part string) (list []form) {
	for _, f := range forms {
		if strings.Contains(f.name, part) {
			list = append(list, f)
		}
	}
	return list
}
