package rewrite

import (
	"testing"
)

// I3, of a row: a statement that presents a lower token while it runs does not write that over the row's, which its condition
// has let through with the one before.
func TestI3TokenThatChangesWithinAStatement(t *testing.T) {
	conn, _ := rowConn(t)
	const lower = "set_config('fence.token', 'jobs/1=1', false)"
	run(t, conn, "CREATE FUNCTION lower_token() RETURNS text LANGUAGE plpgsql COST 1000 AS $$BEGIN RETURN "+lower+"; END$$")
	for mode, name := range map[OnStale]string{StaleReject: "reject", StaleRewrite: "rewrite"} {
		for scope, a := range map[string]*Analyzer{"": newAnalyzer(t, rowConfig(mode)), ", scope": newAnalyzer(t, scopeConfig(mode))} {
			var sc Scratch
			for _, sql := range []string{
				"UPDATE t SET b = " + lower + " WHERE id = 1",
				"UPDATE t SET b = lower_token() WHERE id < 2",
				"UPDATE t SET a = 1 WHERE id = 1 AND lower_token() IS NOT NULL",
				"UPDATE t SET b = lower_token() FROM src WHERE src.id = 5 AND t.id = 1",
				"PREPARE pp AS UPDATE t SET b = lower_token() WHERE id = 1; EXECUTE pp",
				"EXPLAIN ANALYZE UPDATE t SET b = lower_token() WHERE id = 1",
				"WITH x AS (UPDATE t SET b = lower_token() WHERE id = 1 RETURNING id) SELECT * FROM x",
				"INSERT INTO t (id, a) VALUES (1, 77) ON CONFLICT (id) DO UPDATE SET b = lower_token()",
				"MERGE INTO t USING src ON t.id = 1 AND src.id = 5 WHEN MATCHED THEN UPDATE SET b = lower_token()",
			} {
				if !hasForm(conn, sql) {
					continue
				}
				an := a.Analyze(&sc, []byte(sql), Settings{})
				if !an.Spliced() {
					t.Errorf("%s%s: %s is not spliced", name, scope, sql)
					continue
				}
				run(t, conn, "BEGIN; UPDATE t SET tok = 20 WHERE id = 1; SET LOCAL fence.token = 'jobs/1=34'; SAVEPOINT s")
				if got := outcomeOf(conn, spliced(an, sql)); got != "ZF001" {
					t.Errorf("%s%s: %s\n %s\n %s", name, scope, sql, spliced(an, sql), got)
				}
				run(t, conn, "ROLLBACK; DEALLOCATE ALL; RESET fence.token")
			}
		}
	}
}

// A scope compares names as they are written, whatever the collation of the column says that is equal.
func TestI1ScopeOfAnotherCollation(t *testing.T) {
	conn, _ := rowConn(t)
	run(t, conn, `CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		CREATE TABLE words (id text COLLATE ci PRIMARY KEY, a int, tok bigint); INSERT INTO words VALUES ('x')`)
	for mode, name := range map[OnStale]string{StaleReject: "reject", StaleRewrite: "rewrite"} {
		a := newAnalyzer(t, Config{Fences: []Fence{{Name: "jobs/*", Tables: []string{"words"}, RowToken: "tok", OnStale: mode, Scope: "jobs/{id}"}}})
		var sc Scratch
		for _, tt := range []struct{ sql, token, reject, rewrite string }{
			{"UPDATE words SET a = 1 WHERE id = 'X'", "jobs/x=5", "UPDATE 1", "UPDATE 1"},
			{"UPDATE words SET a = 1 WHERE id = 'X'", "jobs/X=5", "ZF002", "UPDATE 0"},
			{"UPDATE words SET a = 1", "jobs/X=5,jobs/y=6", "ZF002", "UPDATE 0"},
			{"UPDATE words SET a = 1", "jobs/x=5,jobs/y=6", "UPDATE 1", "UPDATE 1"},
			{"DELETE FROM words WHERE id = 'x'", "jobs/x=5", "DELETE 1", "DELETE 1"},
			{"DELETE FROM words WHERE id = 'x'", "jobs/X=5", "ZF002", "DELETE 0"},
			{"INSERT INTO words (id) SELECT w.id FROM words w WHERE false", "jobs/X=5", "INSERT 0 0", "INSERT 0 0"},
			{"DELETE FROM words WHERE id = 'x'; INSERT INTO words (id) VALUES ('x')", "jobs/x=5", "INSERT 0 1", "INSERT 0 1"},
			{"INSERT INTO words (id) SELECT w.id FROM words w ON CONFLICT DO NOTHING", "jobs/X=5", "ZF002", "ZF002"},
		} {
			want := tt.reject
			if mode == StaleRewrite {
				want = tt.rewrite
			}
			run(t, conn, "BEGIN; SET LOCAL fence.token = '"+tt.token+"'")
			text := spliced(a.Analyze(&sc, []byte(tt.sql), Settings{}), tt.sql)
			if got := outcomeOf(conn, text); got != want {
				t.Errorf("%s, %s: %s\n %s, want %s", name, tt.token, text, got, want)
			}
			run(t, conn, "ROLLBACK")
		}
	}
}
