package rewrite

// rowSchema is what the hand cases run on. Every table but src and plain is fenced; log is fenced by two.
const rowSchema = `
	CREATE SCHEMA s2;
	CREATE TABLE t (id int PRIMARY KEY, a int, b text, c numeric DEFAULT 1, d date, "Weird ""Col" int, tok bigint NOT NULL DEFAULT 0);
	INSERT INTO t SELECT i, i * 10, 'b' || i, i, date '2020-01-01' + i, i FROM generate_series(1, 9) i;
	CREATE TABLE s2.t (id int PRIMARY KEY, a int, b text, tok bigint);
	INSERT INTO s2.t SELECT i, i, 'x' || i FROM generate_series(1, 9) i;
	CREATE TABLE "Odd Table" (id int PRIMARY KEY, "select" int, "where" text, "returning" int, tok bigint NOT NULL DEFAULT 0);
	INSERT INTO "Odd Table" SELECT i, i, 'w' || i, i FROM generate_series(1, 3) i;
	CREATE TABLE "set" (id int, "set" int, tok bigint NOT NULL DEFAULT 0);
	INSERT INTO "set" VALUES (1, 1), (2, 2);
	CREATE TABLE ident (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int DEFAULT 7, tok bigint NOT NULL DEFAULT 0);
	INSERT INTO ident (a) VALUES (1), (2);
	CREATE TABLE part (id int, a int, tok bigint NOT NULL DEFAULT 0) PARTITION BY RANGE (id);
	CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100);
	CREATE TABLE part2 PARTITION OF part FOR VALUES FROM (100) TO (100000);
	INSERT INTO part VALUES (1, 1), (150, 2);
	CREATE TABLE arr (id int PRIMARY KEY, xs int[], j jsonb, tok bigint NOT NULL DEFAULT 0);
	INSERT INTO arr VALUES (1, '{1,2,3}', '{"a":1}');
	CREATE TABLE src (id int PRIMARY KEY, a int, b text);
	INSERT INTO src SELECT i, i * 100, 's' || i FROM generate_series(5, 12) i;
	CREATE TABLE plain (id int, a int);
	CREATE TABLE child () INHERITS (t); INSERT INTO child VALUES (50, 1, 'c');
	CREATE VIEW v AS SELECT id, a, b, tok FROM t WHERE id < 8;
	CREATE FUNCTION app_true(int) RETURNS bool LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN true; END';`

// fencedTables have row tokens in the tests.
var fencedTables = []string{"t", "s2.t", `"Odd Table"`, `"set"`, "ident", "part", "arr", "v"}

var rowColumns = fixedCatalog{
	"t": {"id", "a", "b", "c", "d", `Weird "Col`, "tok"}, "s2.t": {"id", "a", "b", "tok"},
	"Odd Table": {"id", "select", "where", "returning", "tok"}, "set": {"id", "set", "tok"}, "ident": {"id", "a", "tok"},
	"part": {"id", "a", "tok"}, "v": {"id", "a", "b", "tok"},
}

// fixedCatalog knows columns by schema.table or table.
type fixedCatalog map[string][]string

func (c fixedCatalog) Generation() uint64 { return 1 }

func (c fixedCatalog) Table(schema, name string) (Table, bool) {
	if schema != "" {
		name = schema + "." + name
	}
	columns, ok := c[name]
	return Table{Columns: columns}, ok
}

func rowConfig(s OnStale) Config {
	return Config{Catalog: rowColumns, Fences: []Fence{{Name: "jobs/*", Tables: fencedTables, RowToken: "tok", OnStale: s, BareToken: true}}}
}

// rowCase is a statement and what is made of it. %T stands for the session's token, %F for the test of "t", %S for the
// stamp of a row of "t" that is checked, %1T, %1F and %1S for the same where they are called for each row; the empty text
// means whatever passes the other tests. refused is the SQLSTATE.
type rowCase struct {
	sql     string
	args    []any
	rewrite string // with StaleRewrite
	reject  string // with StaleReject
	refused string // in both
	kept    bool   // is sent as it is
}

const sessionToken = `(SELECT fence.row_token('jobs/*', true))`

var rowCases = []rowCase{
	// UPDATE
	{sql: "UPDATE t SET a=1 WHERE id=$1", args: []any{3}, rewrite: `UPDATE t SET "tok" = %1T, a=1 WHERE id=$1 AND %1F`, reject: `UPDATE t SET "tok" = %1S, a=1 WHERE id=$1`},
	{sql: "UPDATE t SET a=1", rewrite: `UPDATE t SET "tok" = %T, a=1 WHERE %F`, reject: `UPDATE t SET "tok" = %S, a=1`},
	{sql: "UPDATE t SET a=1 WHERE id=999"},
	{sql: "update only t as x set a = x.a + 1, b = $1 where x.id = $2 or x.id = 4", args: []any{"z", 3}},
	{sql: "UPDATE t x SET a=s.a FROM src s WHERE s.id=x.id"},
	{sql: "UPDATE t SET a=src.a FROM src LEFT JOIN LATERAL (SELECT max(id) m FROM src z WHERE z.id=src.id) q ON true WHERE src.id=t.id AND q.m IS NOT NULL"},
	{sql: "UPDATE t SET a=1 WHERE id=$1 RETURNING id, a, b AS returning", args: []any{3}},
	{sql: "UPDATE t SET a=1 RETURNING t.id", rewrite: `UPDATE t SET "tok" = %T, a=1 WHERE %F RETURNING t.id`},
	{sql: "UPDATE t SET (a, b) = ($1, $2) WHERE id = $3", args: []any{7, "q", 2}, reject: `UPDATE t SET "tok" = %1S, (a, b) = ($1, $2) WHERE id = $3`},
	{sql: "UPDATE t SET (a, b) = (SELECT a, b FROM src WHERE src.id = t.id) WHERE id IN (SELECT id FROM src WHERE a > 0)"},
	{sql: "UPDATE t SET (a) = ROW(4) WHERE id=1"},
	{sql: "UPDATE t SET a = CASE WHEN id = 1 THEN 5 ELSE a END WHERE id < 3"},
	{sql: "UPDATE t SET a = (t.a IS DISTINCT FROM 10)::int, c = 3, b = (t.b IS NOT DISTINCT FROM 'b1') FROM src WHERE src.id = t.id OR t.id = 1"},
	{sql: "UPDATE t SET a = 5 /* hint */ -- WHERE comment\n WHERE /*+ IndexScan(t) */ id = 1 -- trailing RETURNING",
		rewrite: "UPDATE t SET \"tok\" = %1T, a = 5 /* hint */ -- WHERE comment\n WHERE /*+ IndexScan(t) */ id = 1 AND %1F -- trailing RETURNING"},
	{sql: "UPDATE t SET b = 'x WHERE y'\n\n 'z' || E'\\'' || $x$;'$x$"},
	{sql: "UPDATE t SET b = $$ WHERE ; RETURNING $$ WHERE b = E'it\\'s' OR b = 'b1' OR b = U&'!00622' UESCAPE '!'"},
	{sql: `UPDATE "Odd Table" SET "select" = 9, "where" = "where" || 'x' WHERE "Odd Table"."returning" = $1 RETURNING "Odd Table"."where"`, args: []any{2}},
	{sql: `UPDATE "Odd Table" o SET "select" = o.select + 1 WHERE o.where = 'w1' RETURNING o.where, o.returning AS where`},
	{sql: `UPDATE U&"Odd!0020Table" UESCAPE '!' AS U&"!006f" UESCAPE '!' SET "select" = o.select + 1 WHERE o.where = 'w1'`},
	{sql: `UPDATE set SET set = set + 1 WHERE set = 1`},
	{sql: `UPDATE t AS set SET a = set.a WHERE set.id = 1`},
	{sql: "UPDATE s2.t SET a = 3 WHERE s2.t.id = 2", rewrite: `UPDATE s2.t SET "tok" = %1T, a = 3 WHERE s2.t.id = 2 AND fence.row_fits("tok", 'jobs/*', true)`},
	{sql: "UPDATE t SET a = u.a FROM s2.t u WHERE u.id = t.id;"},
	{sql: "UPDATE part SET a = a + $1 WHERE id > $2", args: []any{1, 0}},
	{sql: "UPDATE part SET id = id + 100 WHERE id < 100"},
	{sql: "UPDATE v SET a = 77 WHERE id = 3"},
	{sql: "UPDATE arr SET xs[2] = $1, j['k'] = '5' WHERE xs[1] = 1", args: []any{42}},
	{sql: `UPDATE t SET "Weird ""Col" = 5 WHERE "Weird ""Col" > 3 AND b LIKE 'b%' ESCAPE '!'`},
	{sql: "UPDATE t * SET a = 5 WHERE id = 1"},
	{sql: "UPDATE ONLY (t) SET a = 5 WHERE id = 1"},
	{sql: "UPDATE t SET a = DEFAULT, d = '2021-01-01' WHERE d < now() - interval '1 day' AND NOT (id BETWEEN 2 AND 4)"},
	{sql: "UPDATE t SET a=1 WHERE id = 3 AND tok = 0"},
	{sql: "UPDATE t SET a=1 WHERE id = 3 OR tok < 10"},
	{sql: "UPDATE t SET a=1 WHERE NOT (tok < 10)"},
	{sql: "UPDATE t SET a=1 WHERE id = 3 AND app_true(id)"},
	{sql: "UPDATE t SET a=1 WHERE a < 90 AND (b <> 'x' AND CAST('3' AS int) = t.id)", rewrite: `UPDATE t SET "tok" = %1T, a=1 WHERE a < 90 AND (b <> 'x' AND CAST('3' AS int) = t.id) AND %1F`},
	{sql: "UPDATE t SET a=1 WHERE id = $1::int", args: []any{3}, rewrite: `UPDATE t SET "tok" = %1T, a=1 WHERE id = $1::int AND %1F`},
	{sql: "UPDATE t SET a=1 WHERE id = 3 OR id = 4", rewrite: `UPDATE t SET "tok" = %T, a=1 WHERE (id = 3 OR id = 4) AND %F`},
	{sql: "UPDATE t SET a=1 WHERE NOT (id = 3)", rewrite: `UPDATE t SET "tok" = %T, a=1 WHERE NOT (id = 3) AND %F`},
	{sql: "UPDATE t SET a=1 WHERE id < 3", rewrite: `UPDATE t SET "tok" = %T, a=1 WHERE id < 3 AND %F`, reject: `UPDATE t SET "tok" = %S, a=1 WHERE id < 3`},
	{sql: "UPDATE t SET a=1 WHERE id = a / 10", reject: `UPDATE t SET "tok" = %S, a=1 WHERE id = a / 10`},
	{sql: "UPDATE t SET a=1 WHERE id = ANY (ARRAY[1,2])", reject: `UPDATE t SET "tok" = %S, a=1 WHERE id = ANY (ARRAY[1,2])`},
	{sql: "UPDATE t SET a=src.a FROM src WHERE src.id = t.id AND t.id = 5", rewrite: `UPDATE t SET "tok" = %T, a=src.a FROM src WHERE src.id = t.id AND t.id = 5 AND %F`},
	{sql: "UPDATE s2.t SET a = 3 WHERE id < 3"},
	{sql: "UPDATE src SET a=1 WHERE id=6", kept: true},
	{sql: "WITH t AS (SELECT 1 AS id) UPDATE src SET a = 1 FROM t WHERE src.id = t.id", kept: true},

	// by hand
	{sql: "UPDATE t SET a=1, tok = 33 WHERE id = 1 AND tok < 33", kept: true},
	{sql: "UPDATE t SET tok = $2, a=1 WHERE id = $1 AND t.tok <= $2", args: []any{1, int64(33)}, kept: true},
	{sql: "UPDATE t x SET a=1, tok = '33' WHERE id = 1 AND (x.tok IS NULL OR x.tok < 33::bigint)", kept: true},
	{sql: "UPDATE t SET a=1, tok = 33 WHERE 33 > COALESCE(tok, 0)", kept: true},
	{sql: "UPDATE t SET a=1 WHERE id = 1 AND 33 >= tok", kept: true},
	{sql: "UPDATE t SET a=src.a, tok = 33 FROM src WHERE src.id = t.id AND t.tok < 33", kept: true},
	{sql: "DELETE FROM t WHERE id = 1 AND tok <= 33", kept: true},
	{sql: "INSERT INTO t (id, tok) VALUES (100, 33)", kept: true},
	{sql: "INSERT INTO ident VALUES (DEFAULT, 5, 33)", kept: true},
	{sql: "INSERT INTO t (id, a, tok) VALUES (1, 5, 33) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a, tok = EXCLUDED.tok WHERE t.tok < EXCLUDED.tok", kept: true},
	{sql: "MERGE INTO t USING src ON t.id = src.id WHEN MATCHED AND t.tok < 33 THEN UPDATE SET a = src.a, tok = 33 WHEN MATCHED AND t.tok <= 33 THEN DELETE WHEN NOT MATCHED THEN INSERT (id, tok) VALUES (src.id, 33)", kept: true},
	{sql: "UPDATE t SET a=1, tok = 3 WHERE id=1", refused: "ZF004"},
	{sql: "UPDATE t SET a=1, tok = 3 WHERE tok < 4", refused: "ZF004"},
	{sql: "UPDATE t SET a=1, tok = tok + 1 WHERE tok < 4", refused: "ZF004"},
	{sql: "UPDATE t SET tok = $1 WHERE tok < $2", refused: "ZF004"},
	{sql: "UPDATE t SET tok = 3 WHERE tok < 3 OR true", refused: "ZF004"},
	{sql: "UPDATE t SET tok = 3 WHERE NOT tok < 3", refused: "ZF004"},
	{sql: "UPDATE t SET tok = 3 WHERE tok > 3", refused: "ZF004"},
	{sql: "UPDATE t SET tok = 3 WHERE EXISTS (SELECT FROM src WHERE tok < 3)", refused: "ZF004"},
	{sql: "UPDATE t SET tok = 3 FROM s2.t u WHERE u.tok < 3", refused: "ZF004"},
	{sql: "UPDATE t SET tok = 3 FROM src WHERE tok < 3", refused: "ZF004"},
	{sql: "UPDATE t SET tok = DEFAULT WHERE tok < 3", refused: "ZF004"},
	{sql: "UPDATE t SET (a, tok) = (SELECT 1, 3) WHERE tok < 3", refused: "ZF004"},
	{sql: "UPDATE t SET tok = 3 WHERE tok OPERATOR(s2.<) 3", refused: "ZF004"},
	{sql: "UPDATE t SET tok = 3 WHERE COALESCE(tok, a) < 3", refused: "ZF004"},
	{sql: "UPDATE t SET tok = 3 WHERE (tok IS NOT NULL OR tok < 3)", refused: "ZF004"},
	{sql: "INSERT INTO t (id, a, tok) VALUES (1, 5, 33) ON CONFLICT (id) DO UPDATE SET a = 1, tok = EXCLUDED.tok", refused: "ZF004"},
	{sql: "INSERT INTO t (id, a, tok) VALUES (1, 5, 4) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a",
		reject: `INSERT INTO t (id, a, tok) VALUES (1, 5, 4) ON CONFLICT (id) DO UPDATE SET "tok" = %S, a = EXCLUDED.a`},
	{sql: "MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN UPDATE SET tok = 3", refused: "ZF004"},

	// DELETE
	{sql: "DELETE FROM t", rewrite: `DELETE FROM t WHERE %F`, reject: `DELETE FROM t WHERE %C`},
	{sql: "DELETE FROM t WHERE id = $1 OR b = $2", args: []any{1, "b2"}, rewrite: `DELETE FROM t WHERE (id = $1 OR b = $2) AND %F`,
		reject: `DELETE FROM t WHERE (id = $1 OR b = $2) AND (CASE WHEN (id = $1 OR b = $2) THEN %C ELSE false END)`},
	{sql: "DELETE FROM t WHERE id = 999", rewrite: `DELETE FROM t WHERE id = 999 AND %1F`, reject: `DELETE FROM t WHERE (id = 999) AND (CASE WHEN (id = 999) THEN %1C ELSE false END)`},
	{sql: "DELETE FROM t USING src WHERE src.id = t.id AND t.id = 5", rewrite: `DELETE FROM t USING src WHERE src.id = t.id AND t.id = 5 AND %F`},
	{sql: "DELETE FROM t WHERE id = 1 AND app_true(id) RETURNING id",
		reject: `DELETE FROM t WHERE (CASE WHEN (id = 1 AND app_true(id)) THEN %1C ELSE false END) RETURNING id`},
	{sql: "DELETE FROM t WHERE id IN (SELECT id FROM src ORDER BY id LIMIT 2)",
		reject: `DELETE FROM t WHERE (CASE WHEN (id IN (SELECT id FROM src ORDER BY id LIMIT 2)) THEN %C ELSE false END)`},
	{sql: "DELETE FROM t WHERE a = 10 AND b = 'b1' -- x",
		reject: `DELETE FROM t WHERE (a = 10 AND b = 'b1') AND (CASE WHEN (a = 10 AND b = 'b1') THEN %1C ELSE false END) -- x`},
	{sql: "DELETE FROM ONLY t AS q USING src, s2.t z WHERE q.id = src.id AND z.id = q.id RETURNING q.*, src.b"},
	{sql: "delete from t using src join s2.t st on st.id = src.id where src.id = t.id returning t.id"},
	{sql: "DELETE FROM t q RETURNING 1"},
	{sql: "DELETE FROM t WHERE EXISTS (SELECT 1 FROM src WHERE src.id = t.id LIMIT $1)", args: []any{int64(1)}},
	{sql: "DELETE FROM t WHERE EXISTS (SELECT 1 FROM src WHERE src.id = t.id)"},
	{sql: "DELETE FROM t WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)"},
	{sql: "DELETE FROM part WHERE id = 150"},

	// INSERT
	{sql: "INSERT INTO t (id, a, b) VALUES ($1, $2, $3)", args: []any{100, 1, "x"}, rewrite: `INSERT INTO t (id, a, b, "tok") VALUES ($1, $2, $3, fence.row_token('jobs/*', true))`},
	{sql: "INSERT INTO t (id, a) VALUES (101, 1), (102, DEFAULT), (103, (SELECT max(a) FROM src WHERE id IN (5,6)))"},
	{sql: "INSERT INTO t (id, a, b) VALUES (101, 1, 'a'), (102, NULL, 'b'), (103, 3, 'c'), (104, NULL, 'd'),(105,5,'e')"},
	{sql: "INSERT INTO t VALUES (104, 1, 'x')", rewrite: `INSERT INTO t ("id", "a", "b", "tok") VALUES (104, 1, 'x', fence.row_token('jobs/*', true))`},
	{sql: "INSERT INTO part DEFAULT VALUES", rewrite: `INSERT INTO part ("tok") VALUES (fence.row_token('jobs/*', true))`},
	{sql: "INSERT INTO part AS p (id, a) VALUES (10, 5) RETURNING p.id"},
	{sql: "INSERT INTO ident (id, a) OVERRIDING SYSTEM VALUE VALUES (50, $1) RETURNING a", args: []any{4}},
	{sql: "INSERT INTO ident OVERRIDING SYSTEM VALUE VALUES (50, $1)", args: []any{4}},
	{sql: "INSERT INTO ident DEFAULT VALUES RETURNING a"},
	{sql: "INSERT INTO t (id, a, b) SELECT id + 200, $1, $2 FROM src", args: []any{4, "p"}, rewrite: `INSERT INTO t (id, a, b, "tok") SELECT id + 200, $1, $2, %T FROM src`},
	{sql: "INSERT INTO t (id, a, b) SELECT DISTINCT ON (id) id + 200, a, 'lit' FROM src ORDER BY id, 2 LIMIT 3"},
	{sql: "INSERT INTO t (id, a, b) (SELECT id + 200, a, b FROM src WHERE id IS DISTINCT FROM 7)"},
	{sql: "INSERT INTO t (id, a) SELECT id + 200, a FROM src UNION ALL SELECT 300, $1 UNION (SELECT 301, 2 FROM src WHERE false) ORDER BY 1", args: []any{5}},
	{sql: "INSERT INTO t (id, a) (VALUES (400, 1), (401, 2)) UNION (WITH q AS (SELECT 402 AS x) SELECT x, 3 FROM q) EXCEPT SELECT 401, 2"},
	{sql: "INSERT INTO t (id, a) SELECT id + 200, count(*) FILTER (WHERE a > 1) FROM src GROUP BY 1 HAVING count(*) > 0"},
	{sql: "INSERT INTO t (id, c) SELECT 400, percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM src"},
	{sql: "INSERT INTO t (id, a) WITH q AS MATERIALIZED (SELECT id, a FROM src) SELECT id + 200, a FROM q"},
	{sql: "INSERT INTO t (id, a) WITH RECURSIVE q(n) AS (SELECT 500 UNION ALL SELECT n+1 FROM q WHERE n < 505) SEARCH DEPTH FIRST BY n SET ordc, r AS (SELECT 1) SELECT n, 1 FROM q"},
	{sql: "INSERT INTO t (id, a) WITH RECURSIVE q(n) AS (SELECT 500 UNION ALL SELECT n+1 FROM q WHERE n < 505) CYCLE n SET cyc TO 1 DEFAULT 0 USING pth SELECT n, 1 FROM q"},
	{sql: "INSERT INTO t SELECT id + 200, a FROM src"},
	{sql: "INSERT INTO src VALUES (1,2,'3')", kept: true},
	{sql: "INSERT INTO t (id, a, b) TABLE src", rewrite: `INSERT INTO t (id, a, b, "tok") SELECT *, %T FROM src`},
	{sql: "INSERT INTO t (id, a) SELECT src.id + 600, src.a AS from FROM src"},
	{sql: "INSERT INTO t (id, a, b) SELECT * FROM src WHERE id > 9"},
	{sql: "INSERT INTO t (id, a, b) SELECT DISTINCT id, sum(a) OVER (PARTITION BY id), b FROM src WHERE id > 9 ORDER BY 1 FETCH FIRST 2 ROWS ONLY"},
	{sql: "INSERT INTO t SELECT * FROM src", refused: "ZF004"},
	{sql: "INSERT INTO arr VALUES (2)", refused: "ZF004"},
	{sql: "INSERT INTO t VALUES (200, (ROW(1, 2)::plain).*)", refused: "ZF004"}, // so many columns that nobody knows
	{sql: "INSERT INTO t (id, c, a) VALUES (200, (ROW(1, 2)::plain).*)"},
	{sql: "MERGE INTO part USING src ON part.id = src.id WHEN NOT MATCHED THEN INSERT VALUES (src.*)", refused: "ZF004"},
	{sql: "INSERT INTO part VALUES (1, 2, 3, 4)", refused: "ZF004"},
	{sql: "INSERT INTO part SELECT FROM src", refused: "ZF004"},
	{sql: "UPDATE t SET a = s2.t.a FROM s2.t WHERE s2.t.id = 1", refused: "ZF004"},
	{sql: "DELETE FROM t USING src JOIN s2.t ON true", refused: "ZF004"},
	{sql: "UPDATE t x SET a = t.a FROM s2.t WHERE t.id = 1 AND x.id = 1"},

	// ON CONFLICT
	{sql: "INSERT INTO t (id, a) VALUES ($1, $2) ON CONFLICT DO NOTHING", args: []any{1, 5}},
	{sql: "INSERT INTO t (id, a) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a", args: []any{1, 5},
		rewrite: `INSERT INTO t (id, a, "tok") VALUES ($1, $2, fence.row_token('jobs/*', true)) ON CONFLICT (id) DO UPDATE SET "tok" = %T, a = EXCLUDED.a WHERE %F`},
	{sql: "INSERT INTO t AS x (id, a, b) VALUES ($1, $2, $3) ON CONFLICT (id) WHERE id > 0 DO UPDATE SET (a, b) = (EXCLUDED.a, x.b || $4) WHERE x.a < $5 OR x.a IS NULL RETURNING x.id, (x.a)", args: []any{1, 5, "r", "s", 1000}},
	{sql: "INSERT INTO t (id, a) SELECT id, a FROM src WHERE true ON CONFLICT ON CONSTRAINT t_pkey DO UPDATE SET a = EXCLUDED.a + t.a RETURNING t.a"},
	{sql: "INSERT INTO s2.t (id, a) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = t.a + 1"},
	{sql: "INSERT INTO t (id, a) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET a = 3 WHERE t.id = 999"},

	// CTE
	{sql: "WITH d AS (DELETE FROM t WHERE id < $1 RETURNING id, a) INSERT INTO s2.t (id, a) SELECT id + 700, a FROM d", args: []any{3}},
	{sql: "WITH u AS NOT MATERIALIZED (SELECT 1 AS x), w (i) AS (UPDATE t SET a = 0 FROM u WHERE id = u.x RETURNING id) SELECT * FROM w WHERE i > 0"},
	{sql: "WITH d AS (DELETE FROM t WHERE id = 1 RETURNING *), i AS (INSERT INTO \"Odd Table\" (id, \"select\") SELECT id+60, a FROM d ON CONFLICT (id) DO UPDATE SET \"select\" = 1 RETURNING id) UPDATE s2.t SET a = i.id FROM i WHERE s2.t.id = 2 RETURNING s2.t.a"},
	{sql: "WITH u AS (UPDATE t SET a = 9) SELECT count(*) FROM src"},
	{sql: "WITH u AS (DELETE FROM t) SELECT count(*) FROM src"},
	{sql: "WITH x AS (DELETE FROM t WHERE id < 3 RETURNING id, a) INSERT INTO plain SELECT id, a FROM x"},
	{sql: "CREATE TABLE made AS WITH x AS (DELETE FROM t WHERE id < 3 RETURNING id, a) SELECT id, a FROM x"},

	// MERGE
	{sql: "MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN UPDATE SET a = src.a, b = $1 WHEN NOT MATCHED THEN INSERT (id, a, b) VALUES (src.id, src.a, src.b)", args: []any{"m"}},
	{sql: "MERGE INTO t AS x USING (SELECT * FROM src WHERE id > 3) s ON x.id = s.id AND CASE WHEN s.id = 9 THEN false ELSE true END WHEN MATCHED AND s.id = 5 OR s.id = 6 THEN DELETE WHEN MATCHED AND CASE WHEN s.id > 7 THEN true ELSE false END THEN UPDATE SET (a, b) = (CASE WHEN s.a > 0 THEN 1 ELSE 2 END, 'mm') WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED AND s.id < 12 THEN INSERT (id, a) VALUES (s.id + 800, 1) WHEN NOT MATCHED THEN DO NOTHING"},
	{sql: "MERGE INTO ident USING src ON ident.id = src.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT DEFAULT VALUES"},
	{sql: "MERGE INTO ident i USING src ON i.id = src.id WHEN NOT MATCHED THEN INSERT OVERRIDING SYSTEM VALUE VALUES (src.id, $1)", args: []any{6}},
	{sql: "WITH s AS (SELECT * FROM src) MERGE INTO part p USING s ON p.id = s.id WHEN NOT MATCHED THEN INSERT (a, id) VALUES (s.a, s.id) WHEN MATCHED THEN UPDATE SET a = p.a + s.a"},

	// around it
	{sql: "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) UPDATE t SET a = 1 WHERE id = 1"},
	{sql: "EXPLAIN DELETE FROM t"},
	{sql: "PREPARE pp(int) AS UPDATE t SET a = $1 WHERE id = 2"},
	{sql: "COPY (UPDATE t SET a = 2 WHERE id = 1 RETURNING id) TO STDOUT", rewrite: `COPY (UPDATE t SET "tok" = %1T, a = 2 WHERE id = 1 AND %1F RETURNING id) TO STDOUT`},
	{sql: "COPY t (id, a) FROM STDIN", refused: "ZF004"},
	{sql: "COPY t (id, a, tok) FROM STDIN", kept: true},
	{sql: "COPY t FROM STDIN", kept: true},
	{sql: "COPY t TO STDOUT", kept: true},
	{sql: "UPDATE t SET a=1 WHERE id=1; DELETE FROM s2.t WHERE id=2 ; ; INSERT INTO t (id) VALUES (900);"},
	{sql: "DECLARE c CURSOR FOR SELECT * FROM t FOR UPDATE; DELETE FROM t WHERE CURRENT OF c", refused: "ZF004"},
	{sql: "SELECT ';UPDATE t SET a=1', \"where\" FROM \"Odd Table\"", kept: true},
	{sql: "TRUNCATE part", kept: true},
	{sql: "UPDATE pg_temp.t SET a = 1", kept: true},
}
