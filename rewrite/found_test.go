package rewrite

import (
	"strings"
	"testing"
)

// foundConfig: jobs has row tokens, billing has none.
func foundConfig(found bool) Config {
	cfg := Config{HarmlessFunctions: []string{"app.trusted"}, Fences: []Fence{
		{Name: "billing", Tables: []string{"accounts"}},
		{Name: "jobs", Tables: []string{"jobs"}, RowToken: "tok"},
		{Name: "rows", Tables: []string{"lines"}, RowToken: "tok", OnStale: StaleRewrite},
	}}
	if found {
		cfg.Fences[0].Found = Found{
			Children:  []Name{{"app", "accounts_1"}},
			Views:     []Name{{"app", "open_accounts"}, {"app", "Größe"}},
			Functions: []Name{{"app", "pay"}, {"public", "lower"}, {"app", "trusted"}, {"app", "dual"}},
		}
		cfg.Fences[1].Found = Found{Children: []Name{{"app", "jobs_1"}}, Views: []Name{{"app", "open_jobs"}, {"app", "*"}}, Functions: []Name{{"app", "dual"}}}
		cfg.Fences[2].Found = Found{Children: []Name{{"app", "lines_1"}}, Views: []Name{{"app", "open_lines"}}}
	}
	return cfg
}

// I1: what the catalog has found is written like the fence's own tables.
func TestI1FoundNames(t *testing.T) {
	runTable(t, foundConfig(true), []tableTest{
		{"UPDATE accounts_1 SET a = 1", "write billing"},
		{"UPDATE app.accounts_1 SET a = 1", "write billing"},
		{"UPDATE other.accounts_1 SET a = 1", "write plain"},
		{"UPDATE pg_temp.accounts_1 SET a = 1", "write plain"},
		{"INSERT INTO open_accounts VALUES (1)", "write billing"},
		{`DELETE FROM "Größe"`, "write billing"},
		{"SELECT * FROM open_accounts", "none plain"},
		{"DROP VIEW app.open_accounts", "write billing"},
		{"LOCK accounts_1", "write billing"},
		{"LOCK accounts_1 IN ACCESS SHARE MODE", "lock plain"},
		{"TRUNCATE accounts_1", "write billing"},
		{"SELECT pay(1)", "opaque billing"},
		{"SELECT app.pay(1)", "opaque billing"},
		{"SELECT other.pay(1)", "opaque"},
		{"SELECT dual()", "opaque billing+jobs"},
		{"SELECT 1 FROM t WHERE EXISTS (SELECT app.pay(id))", "opaque billing"},
		{"CALL pay(1)", "[call] opaque billing"},
		{"PREPARE p AS SELECT pay(1)", "[prepare] opaque billing name=p"},
		{"EXPLAIN SELECT pay(1)", "opaque"},
		{"EXPLAIN ANALYZE SELECT pay(1)", "opaque billing"},
		// A name of PostgreSQL's own may be the application's function. It stays harmless for those who say which they mean.
		{"SELECT lower('A')", "opaque billing"},
		{"SELECT pg_catalog.lower('A')", "none plain"},
		{"SELECT app.trusted()", "none plain"},
		{"SELECT trusted()", "opaque billing"},
		{"SELECT upper('a')", "none plain"},
	})
}

// I1: children have the row token's column, views may have any of that name or none.
func TestI1FoundNamesOfRowTokens(t *testing.T) {
	a := newAnalyzer(t, foundConfig(true))
	var sc Scratch
	for sql, want := range map[string]string{
		"UPDATE jobs_1 SET a = 1":                                       `UPDATE jobs_1 SET "tok" = fence.row_stamp("jobs_1"."tok", (SELECT fence.row_token('jobs', false)), 'jobs'), a = 1`,
		"INSERT INTO app.jobs_1 (id) VALUES (1)":                        `INSERT INTO app.jobs_1 (id, "tok") VALUES (1, fence.row_token('jobs', false))`,
		"DELETE FROM lines_1":                                           `DELETE FROM lines_1 WHERE COALESCE("lines_1"."tok", 0) OPERATOR(pg_catalog.<=) (SELECT fence.row_token('rows', false))`,
		"UPDATE other.jobs_1 SET a = 1":                                 "UPDATE other.jobs_1 SET a = 1",
		"UPDATE open_jobs SET a = 1":                                    "ZF004 jobs",
		"UPDATE app.open_jobs SET tok = 1 WHERE tok < 1":                "ZF004 jobs",
		"INSERT INTO open_jobs (id) VALUES (1)":                         "ZF004 jobs",
		"DELETE FROM open_lines":                                        "ZF004 rows",
		"COPY open_jobs FROM STDIN":                                     "ZF004 jobs",
		`DELETE FROM app."*"`:                                           "ZF004 jobs",
		"MERGE INTO open_jobs USING s ON true WHEN MATCHED THEN DELETE": "ZF004 jobs",
		"WITH x AS (DELETE FROM open_jobs RETURNING 1) SELECT * FROM x": "ZF004 jobs",
		"INSERT INTO other.open_jobs (id) VALUES (1)":                   "INSERT INTO other.open_jobs (id) VALUES (1)",
		"SELECT * FROM open_jobs":                                       "SELECT * FROM open_jobs",
	} {
		for range 2 {
			an := a.Analyze(&sc, []byte(sql), Settings{})
			got := spliced(an, sql)
			if r := an.Statements[0].Refuse; r != nil {
				got = r.Code + " " + strings.Join(an.Fences.Names(foundConfig(true)), "+")
			}
			if got != want {
				t.Errorf("%s\n got  %s\n want %s", sql, got, want)
			}
		}
	}
}

// I1: a plan of before the catalog knew, as prepared statements keep it.
func TestI1PlansAreJudgedAgain(t *testing.T) {
	cfg := foundConfig(true)
	before, after := newAnalyzer(t, foundConfig(false)), newAnalyzer(t, cfg)
	var sc Scratch
	for _, tt := range []tableTest{
		{"UPDATE accounts_1 SET a = 1", "write billing"},
		{"SELECT lower('A')", "opaque billing"},
		{"SELECT pay(1)", "opaque billing"},
		{"CALL pay(1)", "[call] opaque billing"},
		{"PREPARE p AS UPDATE open_accounts SET a = pay(1)", "[prepare] opaque billing name=p"},
		{"WITH x AS (UPDATE open_accounts SET a = 1 RETURNING 1) SELECT * FROM x", "write billing"},
		{"UPDATE jobs_1 SET a = 1", "write jobs refuse=ZF004"},
		{"DELETE FROM lines_1", "write rows refuse=ZF004"},
		{"COPY open_jobs FROM STDIN", "[copy in] write jobs refuse=ZF004"},
		{"LOCK accounts_1", "write billing"},
		{"CREATE SCHEMA x CREATE VIEW open_accounts AS SELECT 1", "write billing"},
		{"SELECT app.trusted()", "same"},
		{"UPDATE jobs SET a = 1", "same"},
		{"DELETE FROM lines", "same"},
		{"DELETE FROM other.lines_1", "same"},
		{"UPDATE accounts SET a = 1", "same"},
		{"VACUUM accounts_1", "same"},
		{"EXPLAIN UPDATE accounts_1 SET a = 1", "same"},
		{"SELEC", "same"},
	} {
		p := before.Analyze(&sc, []byte(tt.sql), Settings{}).Plan
		again := after.Again(p)
		got := "same"
		if again != p {
			got = describe(Analysis{Plan: again}, cfg)
		}
		if got != tt.want {
			t.Errorf("%s\n got  %s\n want %s", tt.sql, got, tt.want)
		}
		if after.Again(again) != again {
			t.Errorf("%s: the second time something else", tt.sql)
		}
		if again.Plain != (got == "same" && p.Plain) {
			t.Errorf("%s: plain %v", tt.sql, again.Plain)
		}
		// What knows less takes nothing away.
		if p := after.Analyze(&sc, []byte(tt.sql), Settings{}).Plan; before.Again(p) != p {
			t.Errorf("%s: less known, another plan", tt.sql)
		}
	}
}

// I1: DDL that may make a way to a fence, another name of one too, and DDL that cannot.
func TestI1DDLThatMakesWays(t *testing.T) {
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	for sql, want := range map[string]bool{
		"CREATE VIEW v AS SELECT 1": true, "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS ''": true, "DO 'BEGIN CREATE VIEW v AS SELECT 1; END'": true,
		"CREATE TABLE p PARTITION OF accounts DEFAULT": true, "ALTER TABLE p INHERIT accounts": true, "ALTER TABLE accounts RENAME TO t": true,
		"ALTER FUNCTION f() RENAME TO g": true, "ALTER PROCEDURE f() RENAME TO g": true, "ALTER ROUTINE f() RENAME TO g": true, "ALTER AGGREGATE f(int) RENAME TO g": true,
		"ALTER FUNCTION f() SET SCHEMA s": true, "ALTER AGGREGATE f(int) SET SCHEMA s": true, "ALTER EXTENSION e SET SCHEMA s": true, "ALTER SCHEMA s RENAME TO t": true,
		"CREATE SCHEMA s CREATE VIEW v AS SELECT * FROM public.accounts": true, "CREATE SCHEMA s CREATE TABLE t () INHERITS (public.accounts)": true,
		"ALTER TABLE accounts FROB a": true, "SELECT 1; CREATE VIEW v AS SELECT 1; SELECT 2": true,
		"CREATE SCHEMA s": false, "CREATE SCHEMA s CREATE TABLE t (id int)": false, "CREATE TABLE t (id int)": false, "ALTER TABLE t RENAME a TO b": false,
		"ALTER TABLE t RENAME TO u": false, "ALTER TABLE t SET SCHEMA s": false, "ALTER TABLE t ADD x int": false, "CREATE INDEX ON t (id)": false,
		"DROP VIEW v": false, "DROP FUNCTION f()": false, "CREATE TEMP TABLE t (id int)": false, "ALTER ROLE a RENAME TO b": false, "SELECT 1": false,
	} {
		got := false
		for _, st := range a.Analyze(&sc, []byte(sql), Settings{}).Statements {
			got = got || st.NewWays
		}
		if got != want {
			t.Errorf("%s: %v", sql, got)
		}
	}
}

func TestStatementsThatChangeTheCatalog(t *testing.T) {
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	for sql, want := range map[string]CatalogChange{
		"CREATE VIEW v AS SELECT 1": CatalogNames, "DROP VIEW v": CatalogFewer, "CREATE RULE r AS ON INSERT TO t DO INSTEAD NOTHING": CatalogNames,
		"CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS ''": CatalogNames, "DROP VIEW v; DROP TABLE t": CatalogFewer, "DROP VIEW v; CREATE VIEW v AS SELECT 1": CatalogNames,
		"ALTER TABLE t RENAME a TO b": CatalogColumns, "CREATE TABLE t (a int)": CatalogColumns, "ALTER TABLE t ADD x int": CatalogColumns,
		"CREATE TABLE p PARTITION OF t FOR VALUES IN (1)": CatalogColumns, "CREATE TABLE t AS SELECT 1": CatalogColumns, "SELECT 1 INTO t": CatalogColumns,
		"SELECT 1; ALTER TABLE t SET SCHEMA x": CatalogColumns,
		"CREATE TEMP TABLE t (a int)":          CatalogSame, "CREATE TEMP VIEW v AS SELECT 1": CatalogOwn, "CREATE VIEW pg_temp.v AS SELECT 1": CatalogOwn, "CREATE TEMP VIEW v AS SELECT 1; DROP VIEW v": CatalogFewer, "CREATE TABLE pg_temp.t AS SELECT 1": CatalogSame, "SELECT 1 INTO TEMP t": CatalogSame,
		"ALTER TABLE t FROB a": CatalogColumns, "FROB TABLE t; create VIEW v": CatalogColumns, "SELECT 'x": CatalogSame, "FROB t": CatalogSame,
		"CREATE VIEW v AS SELECT 'x": CatalogColumns, "SELECT 1 AS \"" + strings.Repeat("n", 300<<10) + "\"; DROP TABLE t": CatalogColumns,
		"VACUUM t": CatalogSame, "ANALYZE t": CatalogSame, "GRANT SELECT ON t TO x": CatalogSame, "UPDATE t SET a = 1": CatalogSame, "EXPLAIN CREATE TABLE t AS SELECT 1": CatalogSame,
	} {
		an := a.Analyze(&sc, []byte(sql), Settings{})
		if an.Catalog != want {
			t.Errorf("%s: %v", sql, an.Catalog)
		}
	}
}
